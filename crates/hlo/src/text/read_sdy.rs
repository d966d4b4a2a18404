//! Reading of Shardy attributes: meshes, shardings, manual axes and the axis lists of its collectives.

use std::sync::Arc;

use crate::ir::Attr;
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};
use crate::text::lexer::{Read, Reader};

impl<'a> Reader<'a> {
    /// The attribute after `#sdy.` and its name; `None` if it is one we carry as text.
    pub(super) fn sdy_attr(&mut self, mnemonic: &str) -> Read<Option<Attr>> {
        let attr = match mnemonic {
            "mesh" => SdyAttr::Mesh(self.sdy_mesh()?),
            "sharding" => match self.sharding()? {
                Some(sharding) => SdyAttr::Sharding(sharding),
                None => return Ok(None),
            },
            "sharding_per_value" => {
                self.expect(b'<')?;
                let Some(shardings) = self.shardings()? else { return Ok(None) };
                self.expect(b'>')?;
                SdyAttr::ShardingPerValue(shardings)
            }
            _ => return Ok(None),
        };
        Ok(Some(Attr::Sdy(Arc::new(attr))))
    }

    /// `<manual_axes{"x"}>` after `#sdy`.
    pub(super) fn bracketed_sdy(&mut self) -> Read<Option<Attr>> {
        self.expect(b'<')?;
        let attr = match self.peek_word() {
            word @ ("manual_axes" | "list_of_axis_ref_lists" | "axis_ref_list" | "all_to_all_param_list") => {
                self.expect_word(word)?;
                match word {
                    "manual_axes" => self.manual_axes()?,
                    "list_of_axis_ref_lists" => self.axis_lists()?,
                    "axis_ref_list" => Attr::Sdy(Arc::new(SdyAttr::AxisList(self.axis_list()?))),
                    _ => self.all_to_all_params()?,
                }
            }
            _ => return Ok(None),
        };
        self.expect(b'>')?;
        Ok(Some(attr))
    }

    /// `[{"x"}, {}]`.
    pub(super) fn axis_lists(&mut self) -> Read<Attr> {
        let mut lists = Vec::new();
        self.list(b'[', b']', |r| {
            lists.push(r.axis_list()?);
            Ok(())
        })?;
        Ok(Attr::Sdy(Arc::new(SdyAttr::AxisLists(lists))))
    }

    /// `[{"x"}: 0->1]`.
    pub(super) fn all_to_all_params(&mut self) -> Read<Attr> {
        let mut params = Vec::new();
        self.list(b'[', b']', |r| {
            let axes = r.axis_list()?;
            r.expect(b':')?;
            let source = r.integer()?;
            r.expect_mark("->")?;
            params.push((axes, source, r.integer()?));
            Ok(())
        })?;
        Ok(Attr::Sdy(Arc::new(SdyAttr::AllToAll(params))))
    }

    /// `{"x", "y"}`.
    pub(super) fn manual_axes(&mut self) -> Read<Attr> {
        let mut axes = Vec::new();
        self.list(b'{', b'}', |r| {
            axes.push(r.utf8_string()?);
            Ok(())
        })?;
        Ok(Attr::Sdy(Arc::new(SdyAttr::ManualAxes(axes))))
    }

    /// `<["x"=2, "y"=4], device_ids=[…]>`.
    pub(super) fn sdy_mesh(&mut self) -> Read<MeshAttr> {
        let mut mesh = MeshAttr { axes: Vec::new(), device_ids: Vec::new() };
        self.expect(b'<')?;
        self.list(b'[', b']', |r| {
            let name = r.utf8_string()?;
            r.expect(b'=')?;
            mesh.axes.push((name, r.integer()?));
            Ok(())
        })?;
        if self.eat(b',') {
            self.expect_word("device_ids")?;
            self.expect(b'=')?;
            mesh.device_ids = self.integers()?;
        }
        self.expect(b'>')?;
        Ok(mesh)
    }

    /// `<@mesh, [{"x"}, {?}], replicated={"y"}>`; `None` if it says something we carry as text.
    pub(super) fn sharding(&mut self) -> Read<Option<TensorSharding>> {
        self.expect(b'<')?;
        let mesh = if self.eat_word("mesh") {
            MeshRef::Inline(self.sdy_mesh()?)
        } else {
            MeshRef::Symbol(self.symbol()?.to_string())
        };
        self.expect(b',')?;
        let mut dims = Vec::new();
        self.list(b'[', b']', |r| {
            dims.push(r.dimension_sharding()?);
            Ok(())
        })?;
        let mut sharding = TensorSharding { mesh, dims, replicated: Vec::new(), unreduced: Vec::new() };
        while self.eat(b',') {
            if self.eat_word("replicated") {
                self.expect(b'=')?;
                sharding.replicated = self.axis_list()?;
            } else {
                self.expect_word("unreduced")?;
                self.eat(b'=');
                if !self.eat_word("sum") && !self.peek_word().is_empty() {
                    return Ok(None);
                }
                sharding.unreduced = self.axis_list()?;
            }
        }
        self.expect(b'>')?;
        Ok(Some(sharding))
    }

    /// `[<@mesh, […]>, …]`.
    pub(super) fn shardings(&mut self) -> Read<Option<Vec<TensorSharding>>> {
        let mut shardings = Vec::new();
        let mut foreign = false;
        let start = self.pos;
        self.list(b'[', b']', |r| {
            match r.sharding()? {
                Some(sharding) => shardings.push(sharding),
                None => {
                    foreign = true;
                    return r.fail_at(start, "this sharding names a reduction that is not supported");
                }
            }
            Ok(())
        })
        .or_else(|failure| if foreign { Ok(()) } else { Err(failure) })?;
        Ok((!foreign).then_some(shardings))
    }

    fn dimension_sharding(&mut self) -> Read<DimensionSharding> {
        let mut dim = DimensionSharding { axes: Vec::new(), is_closed: true, priority: None };
        self.list(b'{', b'}', |r| {
            if !dim.is_closed {
                return r.fail("`?` must come last");
            }
            if r.eat(b'?') {
                dim.is_closed = false;
            } else {
                dim.axes.push(r.axis()?);
            }
            Ok(())
        })?;
        let word = self.peek_word();
        if let Some(priority) = word.strip_prefix('p') {
            dim.priority = match priority.parse::<i64>() {
                Ok(priority) if !word.contains('+') => Some(priority),
                _ => return self.expected("a priority such as `p1`"),
            };
            self.pos += word.len();
        }
        Ok(dim)
    }

    /// `"x"` or `"x":(2)4`.
    pub(super) fn axis(&mut self) -> Read<AxisRef> {
        let name = self.utf8_string()?;
        let sub_axis = if self.eat(b':') { Some(self.sub_axis()?) } else { None };
        Ok(AxisRef { name, sub_axis })
    }

    /// `{"x", "y":(1)2}`.
    pub(super) fn axis_list(&mut self) -> Read<Vec<AxisRef>> {
        let mut axes = Vec::new();
        self.list(b'{', b'}', |r| {
            axes.push(r.axis()?);
            Ok(())
        })?;
        Ok(axes)
    }
}
