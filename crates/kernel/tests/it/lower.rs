//! Composites become calls of kernels where they can; others stay.

use chips::Generation;
use kernel::kernels::grouped::{self, Grouped, Matrices, MatrixScales};
use kernel::kernels::norm::{self, FusedNorm, FusedNormKind};
use kernel::{Error, lower};
use tensor::DType;

fn program(body: &str, funcs: Vec<hlo::Func>) -> hlo::Verified {
    let mut module = hlo::text::parse(body).unwrap();
    module.funcs.extend(funcs);
    hlo::verify(module).unwrap()
}

fn norm() -> hlo::Func {
    let norm = FusedNorm::new(FusedNormKind::Rms, [64, 256], DType::BF16, DType::F32, 1e-5);
    norm::decomposition(&norm, "plain").unwrap()
}

fn normed(name: &str, generation: Generation) -> kernel::Lowered {
    let body = format!(
        "func.func @main(%x: tensor<64x256xbf16>, %w: tensor<1x256xf32>) -> tensor<64x256xbf16> {{
  %y = stablehlo.composite \"{name}\" %x, %w {{composite_attributes = {{epsilon = 1.0e-5 : f32}}, decomposition = @plain}} : (tensor<64x256xbf16>, tensor<1x256xf32>) -> tensor<64x256xbf16>
  return %y : tensor<64x256xbf16>
}}"
    );
    lower(program(&body, vec![norm()]), generation).unwrap()
}

#[test]
fn known_names_become_calls() {
    let lowered = normed("tpubridge.rms_norm", Generation::V5e);
    assert!(matches!(&lowered.called[..], [(name, _)] if name == "tpubridge.rms_norm"));
    let text = hlo::text::print(&lowered.module);
    assert!(text.contains("stablehlo.custom_call @tpu_custom_call(%arg0, %arg1)"), "{text}");
    assert!(text.contains("kernel_name = \"rms_norm_fwd\""), "{text}");
    assert!(!text.contains("@plain"), "the decomposition is dropped: {text}");
}

#[test]
fn others_stay() {
    let lowered = normed("tpubridge.unheard_of", Generation::V5e);
    assert!(lowered.called.is_empty() && lowered.kept.is_empty());
    assert!(hlo::text::print(&lowered.module).contains("stablehlo.composite \"tpubridge.unheard_of\""));
    let lowered = normed("tpubridge.rms_norm", Generation::V3);
    assert_eq!(lowered.kept, [("tpubridge.rms_norm".to_owned(), Error::Generation(Generation::V3))]);
    assert!(hlo::text::print(&lowered.module).contains("stablehlo.composite"));
}

/// A layer before the rows, scales behind the matrices, and a result of another type than rows.
#[test]
fn codes_come_with_layer_and_scales() {
    let g = Grouped {
        rows: 512,
        inner: 256,
        columns: 128,
        groups: 4,
        layers: Some(3),
        dtype: DType::BF16,
        lhs: DType::F8E4M3FN,
        codes: DType::F8E4M3FN,
        matrices: Matrices::AsIs,
        scales: MatrixScales::Columns,
        expected_rows: None,
    };
    let types =
        "tensor<1xi32>, tensor<512x256xf8E4M3FN>, tensor<3x4x256x128xf8E4M3FN>, tensor<4x1x128xf32>, tensor<4xi32>";
    let [layer, rows, matrices, scales, sizes] = types.split(", ").collect::<Vec<_>>()[..] else { unreachable!() };
    let out = "tensor<512x128xbf16>";
    let body = format!(
        "func.func @main(%l: {layer}, %x: {rows}, %w: {matrices}, %s: {scales}, %n: {sizes}) -> {out} {{
  %y = stablehlo.composite \"tpubridge.gmm\" %l, %x, %w, %s, %n {{composite_attributes = {{result = \"bf16\"}}, decomposition = @plain}} : ({types}) -> {out}
  return %y : {out}
}}"
    );
    for generation in [Generation::V4, Generation::V6e, Generation::Tpu7x] {
        let plain = vec![grouped::decomposition(&g, "plain").unwrap()];
        let lowered = lower(program(&body, plain), generation).unwrap();
        assert_eq!((lowered.called.len(), lowered.kept.len()), (1, 0), "{generation:?}: {:?}", lowered.kept);
        let text = hlo::text::print(&lowered.module);
        assert!(text.contains("@tpu_custom_call(%0#0, %0#1, %0#2, %arg0, %arg1, %arg2, %arg3)"), "{text}");
    }
}

#[test]
fn tables_are_computed_before_the_call() {
    let g = Grouped {
        rows: 512,
        inner: 256,
        columns: 128,
        groups: 4,
        layers: None,
        dtype: DType::BF16,
        lhs: DType::BF16,
        codes: DType::BF16,
        matrices: Matrices::AsIs,
        scales: MatrixScales::None,
        expected_rows: None,
    };
    let body = "func.func @main(%x: tensor<512x256xbf16>, %w: tensor<4x256x128xbf16>, %n: tensor<4xi32>) -> tensor<512x128xbf16> {
  %y = stablehlo.composite \"tpubridge.gmm\" %x, %w, %n {decomposition = @plain} : (tensor<512x256xbf16>, tensor<4x256x128xbf16>, tensor<4xi32>) -> tensor<512x128xbf16>
  return %y : tensor<512x128xbf16>
}";
    let lowered = lower(program(body, vec![grouped::decomposition(&g, "plain").unwrap()]), Generation::V6e).unwrap();
    assert_eq!((lowered.called.len(), lowered.kept.len()), (1, 0));
    let text = hlo::text::print(&lowered.module);
    assert!(text.contains("call @tpubridge_gmm.0(%arg2)"), "{text}");
    assert!(text.contains("@tpu_custom_call(%0#0, %0#1, %0#2, %arg0, %arg1)"), "{text}");
}
