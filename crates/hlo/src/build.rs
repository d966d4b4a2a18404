//! Builder: writes ops into functions with inferred result types, refusing at once what breaks the specification.

use std::sync::Arc;

use tensor::DType;

use crate::ir::sdy::MeshAttr;
use crate::ir::{
    Attr, Attrs, Dense, Func, Loc, MeshOp, Module, NewOp, OpKind, OpName, Region, TensorType, Type, Value, Visibility,
};
use crate::ops::{OpView, Violation};
use crate::verify::constraints;

/// Writes a module, function by function.
#[derive(Clone, Debug, Default)]
pub struct ModuleBuilder {
    module: Module,
}

impl ModuleBuilder {
    /// A module of that name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        ModuleBuilder { module: Module { name: Some(name.into()), ..Module::default() } }
    }

    /// Sets an attribute of the module.
    pub fn attr(&mut self, name: impl Into<crate::ir::AttrName>, value: Attr) -> &mut Self {
        self.module.attrs.set(name, value);
        self
    }

    /// Adds a mesh.
    pub fn mesh(&mut self, name: impl Into<Arc<str>>, mesh: MeshAttr) -> &mut Self {
        self.module.meshes.push(MeshOp { name: name.into(), mesh, attrs: Attrs::new(), loc: None });
        self
    }

    /// Adds a function that a [`FuncBuilder`] finished.
    pub fn func(&mut self, func: Func) -> &mut Self {
        self.module.funcs.push(func);
        self
    }

    /// The module, to be verified.
    pub fn finish(self) -> Module {
        self.module
    }
}

/// Writes the body of one function.
///
/// ```
/// use hlo::{Attrs, FuncBuilder, OpKind, Type};
/// # fn main() -> Result<(), hlo::ops::Violation> {
/// let mut f = FuncBuilder::new("main");
/// let x = f.arg(Type::tensor([4], tensor::DType::F32));
/// let y = f.op(OpKind::Tanh, &[x], Attrs::new())?;
/// let func = f.finish(&[y]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FuncBuilder {
    func: Func,
    /// Regions being written, innermost last; never empty.
    open: Vec<Region>,
    loc: Loc,
}

impl FuncBuilder {
    /// A function of that name, without arguments yet.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        let mut func = Func::new(name);
        let body = func.add_region();
        func.body = Some(body);
        FuncBuilder { func, open: vec![body], loc: None }
    }

    /// Sets who may call the function.
    pub fn visibility(&mut self, visibility: Visibility) -> &mut Self {
        self.func.visibility = visibility;
        self
    }

    /// Sets where the ops that follow come from.
    pub fn at(&mut self, loc: Loc) -> &mut Self {
        self.loc = loc;
        self
    }

    /// Adds an argument.
    pub fn arg(&mut self, ty: Type) -> Value {
        self.arg_with_attrs(ty, Attrs::new())
    }

    /// Adds an argument with attributes, such as a sharding.
    pub fn arg_with_attrs(&mut self, ty: Type, attrs: Attrs) -> Value {
        self.func.inputs.push(ty.clone());
        self.func.input_attrs.push(attrs);
        self.func.add_argument(Region(0), ty, self.loc.clone())
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.func.ty(value)
    }

    /// The function as written so far.
    pub fn as_func(&self) -> &Func {
        &self.func
    }

    /// Writes an op of one result, whose type is inferred.
    pub fn op(&mut self, kind: OpKind, operands: &[Value], attrs: Attrs) -> Result<Value, Violation> {
        let results = self.op_with_regions(kind, operands, attrs, &[])?;
        match results[..] {
            [only] => Ok(only),
            _ => Err(Violation::new("", format!("{} has {} results, 1 expected", kind.name(), results.len()))),
        }
    }

    /// Writes an op, with regions from [`FuncBuilder::region`], whose result types are inferred.
    pub fn op_with_regions(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        attrs: Attrs,
        regions: &[Region],
    ) -> Result<Vec<Value>, Violation> {
        let Some(infer) = &kind.def().infer else {
            if kind.def().results.max == 0 {
                return self.op_with_types(kind, operands, attrs, regions, Vec::new());
            }
            let message = format!("{} does not determine its result types", kind.name());
            return Err(Violation::new("", message));
        };
        self.arities(kind, operands, regions)?;
        let types = self.operand_types(operands);
        let results = (infer.types)(&self.view(&types, operands, &attrs, regions, &[]))?;
        self.op_with_types(kind, operands, attrs, regions, results)
    }

    /// Writes an op of the given result types.
    pub fn op_with_types(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        mut attrs: Attrs,
        regions: &[Region],
        results: Vec<Type>,
    ) -> Result<Vec<Value>, Violation> {
        self.arities(kind, operands, regions)?;
        kind.def().drop_defaults(&mut attrs);
        crate::verify::attributes(kind.def(), &attrs)?;
        let types = self.operand_types(operands);
        constraints(kind, &self.view(&types, operands, &attrs, regions, &results))?;
        Ok(self.append(kind, operands.to_vec(), results, attrs, regions.to_vec()))
    }

    /// Writes a region to hand to an op; the closure takes its arguments and says what it returns.
    pub fn region(
        &mut self,
        args: &[Type],
        write: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>, Violation>,
    ) -> Result<Region, Violation> {
        self.region_ended_by(OpKind::Return, args, write)
    }

    /// As [`FuncBuilder::region`], for a dialect whose regions end in a return of its own.
    pub fn region_ended_by(
        &mut self,
        terminator: OpKind,
        args: &[Type],
        write: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>, Violation>,
    ) -> Result<Region, Violation> {
        let region = self.func.add_region();
        let values: Vec<Value> =
            args.iter().map(|ty| self.func.add_argument(region, ty.clone(), self.loc.clone())).collect();
        self.open.push(region);
        let written = write(self, &values);
        if let Ok(outputs) = &written {
            self.append(terminator, outputs.clone(), Vec::new(), Attrs::new(), Vec::new());
        }
        self.open.pop();
        written.map(|_| region)
    }

    /// Begins a region that [`FuncBuilder::close_region`] ends; its arguments.
    pub(crate) fn open_region(&mut self, args: &[Type]) -> (Region, Vec<Value>) {
        let region = self.func.add_region();
        let values = args.iter().map(|ty| self.func.add_argument(region, ty.clone(), self.loc.clone())).collect();
        self.open.push(region);
        (region, values)
    }

    /// Ends the region that was begun last.
    pub(crate) fn close_region(&mut self, terminator: OpKind, outputs: Vec<Value>) {
        self.append(terminator, outputs, Vec::new(), Attrs::new(), Vec::new());
        self.open.pop();
    }

    /// Writes a constant.
    pub fn constant(&mut self, value: Dense) -> Value {
        let ty = Type::from(value.ty.clone());
        let mut attrs = Attrs::new();
        attrs.set("value", Attr::Dense(Arc::new(value)));
        self.append(OpKind::Constant, Vec::new(), vec![ty], attrs, Vec::new())[0]
    }

    /// Writes a constant filled with one element, given as its little-endian bytes.
    pub fn splat(&mut self, ty: TensorType, element: &[u8]) -> Result<Value, Violation> {
        match Dense::splat(ty, element) {
            Some(dense) => Ok(self.constant(dense)),
            None => Err(Violation::new("constant C1", format!("{} bytes are not one element", element.len()))),
        }
    }

    /// Writes a scalar `i32`.
    pub fn i32(&mut self, value: i32) -> Value {
        self.scalar(DType::I32, &value.to_le_bytes())
    }

    /// Writes a scalar `i64`.
    pub fn i64(&mut self, value: i64) -> Value {
        self.scalar(DType::I64, &value.to_le_bytes())
    }

    /// Writes a scalar `f32`.
    pub fn f32(&mut self, value: f32) -> Value {
        self.scalar(DType::F32, &value.to_le_bytes())
    }

    /// Ends the function, returning those values.
    pub fn finish(self, outputs: &[Value]) -> Func {
        self.finish_with_attrs(outputs, vec![Attrs::new(); outputs.len()])
    }

    /// Ends the function, with attributes of its results, one list for each.
    pub fn finish_with_attrs(mut self, outputs: &[Value], attrs: Vec<Attrs>) -> Func {
        self.func.outputs = outputs.iter().map(|&value| self.func.ty(value).clone()).collect();
        self.func.output_attrs = attrs;
        self.open.truncate(1);
        self.append(OpKind::FuncReturn, outputs.to_vec(), Vec::new(), Attrs::new(), Vec::new());
        self.func.renumber();
        self.func
    }

    fn scalar(&mut self, dtype: DType, bytes: &[u8]) -> Value {
        let ty = TensorType::new(Vec::new(), dtype);
        self.constant(Dense { ty, data: crate::ir::DenseData::Splat(bytes.into()) })
    }

    fn append(
        &mut self,
        kind: OpKind,
        operands: Vec<Value>,
        results: Vec<Type>,
        attrs: Attrs,
        regions: Vec<Region>,
    ) -> Vec<Value> {
        let region = self.open.last().copied().unwrap_or(Region(0));
        let id = self.func.add_op(
            region,
            NewOp { name: OpName::Known(kind), operands, results, attrs, regions, loc: self.loc.clone() },
        );
        self.func.op(id).results().collect()
    }

    fn arities(&self, kind: OpKind, operands: &[Value], regions: &[Region]) -> Result<(), Violation> {
        let def = kind.def();
        for (name, arity, have) in [("operands", def.operands, operands.len()), ("regions", def.regions, regions.len())]
        {
            if !arity.allows(have) {
                return Err(Violation::new("", format!("{} does not take {have} {name}", kind.name())));
            }
        }
        Ok(())
    }

    fn operand_types(&self, operands: &[Value]) -> Vec<Type> {
        operands.iter().map(|&value| self.func.ty(value).clone()).collect()
    }

    fn view<'a>(
        &'a self,
        operands: &'a [Type],
        values: &'a [Value],
        attrs: &'a Attrs,
        regions: &'a [Region],
        results: &'a [Type],
    ) -> OpView<'a> {
        OpView { operands, values, attrs, regions, results, func: &self.func, symbols: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Type {
        Type::tensor([2, 3], DType::F32)
    }

    #[test]
    fn results_are_inferred() {
        let mut f = FuncBuilder::new("main");
        let x = f.arg(matrix());
        let mut attrs = Attrs::new();
        attrs.set("permutation", Attr::i64s([1, 0]));
        let y = f.op(OpKind::Transpose, &[x], attrs).unwrap();
        assert_eq!(f.ty(y), &Type::tensor([3, 2], DType::F32));
        let mut module = ModuleBuilder::new("m");
        module.func(f.finish(&[y]));
        crate::verify(module.finish()).unwrap();
    }

    #[test]
    fn what_breaks_a_clause_is_refused_and_not_written() {
        let mut f = FuncBuilder::new("main");
        let x = f.arg(matrix());
        let y = f.arg(Type::tensor([2, 4], DType::F32));
        let refused = f.op(OpKind::Add, &[x, y], Attrs::new()).unwrap_err();
        assert_eq!(refused, Violation::new("add C1", "operand 0 dim 1 is 3, operand 1 dim 1 is 4"));
        let refused = f.op(OpKind::Not, &[x], Attrs::new()).unwrap_err();
        assert_eq!(refused.clause, "not I1");
        assert!(f.op(OpKind::Add, &[x], Attrs::new()).is_err());
        assert!(f.op(OpKind::Transpose, &[x], Attrs::new()).is_err());
        assert!(f.op(OpKind::Reshape, &[x], Attrs::new()).is_err(), "a reshape does not say to what");
        assert!(f.as_func().ops.is_empty());
    }

    #[test]
    fn regions_are_written_by_closures() {
        let mut f = FuncBuilder::new("main");
        let x = f.arg(matrix());
        let zero = f.f32(0.0);
        let scalar = Type::scalar(DType::F32);
        let body = f
            .region(&[scalar.clone(), scalar], |f, args| Ok(vec![f.op(OpKind::Maximum, args, Attrs::new())?]))
            .unwrap();
        let mut attrs = Attrs::new();
        attrs.set("dimensions", Attr::i64s([1]));
        let reduced = f.op_with_regions(OpKind::Reduce, &[x, zero], attrs, &[body]).unwrap();
        assert_eq!(f.ty(reduced[0]), &Type::tensor([2], DType::F32));
        let count = f.i32(3);
        let looped = {
            let ty = Type::scalar(DType::I32);
            let cond = f
                .region(std::slice::from_ref(&ty), |f, args| {
                    let mut attrs = Attrs::new();
                    attrs.set("comparison_direction", Attr::Keyword(crate::ir::Keyword::Lt));
                    Ok(vec![f.op(OpKind::Compare, &[args[0], args[0]], attrs)?])
                })
                .unwrap();
            let body = f.region(&[ty], |_, args| Ok(args.to_vec())).unwrap();
            f.op_with_regions(OpKind::While, &[count], Attrs::new(), &[cond, body]).unwrap()
        };
        let mut module = ModuleBuilder::new("m");
        module.func(f.finish(&[reduced[0], looped[0]]));
        crate::verify(module.finish()).unwrap();
    }
}
