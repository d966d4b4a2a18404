//! Printing of modules, meshes and functions.

use crate::ir::{Attrs, Func, Module, Visibility};
use crate::print::attr::{Dialect, write_dict, write_optional_dict};
use crate::print::dialect::write_mesh;
use crate::print::name::write_symbol;
use crate::print::ty::write_type;
use crate::text::print_loc::LocationTable;
use crate::text::print_names::Names;
use crate::text::print_op::OpPrinter;
use crate::text::{Locations, PrintOptions};

/// The text of a module.
pub(super) fn module_text(module: &Module, options: PrintOptions) -> String {
    let mut out = String::new();
    let locations = (options.locations == Locations::Aliases).then(|| LocationTable::of(module));
    if let Some(table) = &locations {
        table.write_definitions(&mut out);
    }
    out.push_str("module");
    if let Some(name) = &module.name {
        out.push(' ');
        write_symbol(&mut out, name);
    }
    write_keyword_dict(&mut out, &module.attrs);
    out.push_str(" {\n");
    for mesh in &module.meshes {
        out.push_str("  sdy.mesh ");
        write_symbol(&mut out, &mesh.name);
        out.push_str(" = ");
        write_mesh(&mut out, &mesh.mesh);
        write_optional_dict(&mut out, &mesh.attrs);
        if let Some(table) = &locations {
            table.write_use(&mut out, &mesh.loc);
        }
        out.push('\n');
    }
    for func in &module.funcs {
        write_func(&mut out, func, options, locations.as_ref());
    }
    out.push('}');
    if let Some(table) = &locations {
        table.write_use(&mut out, &module.loc);
    }
    out.push('\n');
    out
}

/// Appends ` attributes {…}` when there are attributes.
fn write_keyword_dict(out: &mut String, attrs: &Attrs) {
    if !attrs.is_empty() {
        out.push_str(" attributes ");
        write_dict(out, attrs.iter(), Dialect::Stablehlo);
    }
}

fn write_func(out: &mut String, func: &Func, options: PrintOptions, locations: Option<&LocationTable<'_>>) {
    let names = Names::of(func);
    out.push_str("  func.func ");
    out.push_str(match func.visibility {
        Visibility::Default => "",
        Visibility::Public => "public ",
        Visibility::Private => "private ",
        Visibility::Nested => "nested ",
    });
    write_symbol(out, &func.name);
    out.push('(');
    let no_attrs = Attrs::new();
    for (i, ty) in func.inputs.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        let arg = func.args().get(i).copied();
        if let Some(arg) = arg {
            out.push('%');
            out.push_str(names.of_value(arg));
            out.push_str(": ");
        }
        write_type(out, ty);
        write_optional_dict(out, func.input_attrs.get(i).unwrap_or(&no_attrs));
        if let (Some(table), Some(arg)) = (locations, arg) {
            table.write_use(out, &func.value(arg).loc);
        }
    }
    out.push(')');
    write_func_results(out, func);
    write_keyword_dict(out, &func.attrs);
    if let Some(body) = func.body {
        out.push_str(" {\n");
        OpPrinter::new(out, func, &names, options, locations).region(body, 4);
        out.push_str("  }");
    }
    if let Some(table) = locations {
        table.write_use(out, &func.loc);
    }
    out.push('\n');
}

fn write_func_results(out: &mut String, func: &Func) {
    if func.outputs.is_empty() {
        return;
    }
    out.push_str(" -> ");
    let no_attrs = Attrs::new();
    let attrs = |i: usize| func.output_attrs.get(i).unwrap_or(&no_attrs);
    let is_bare =
        func.outputs.len() == 1 && attrs(0).is_empty() && !matches!(func.outputs[0], crate::ir::Type::Function(_));
    if is_bare {
        write_type(out, &func.outputs[0]);
        return;
    }
    out.push('(');
    for (i, ty) in func.outputs.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write_type(out, ty);
        write_optional_dict(out, attrs(i));
    }
    out.push(')');
}
