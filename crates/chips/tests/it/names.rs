//! Spellings that are read, and what is said about those that are not.

use chips::{Error, Generation, ShapeFault, Slice};

fn check(name: &str, expected: &str) {
    let shown = match name.parse::<Slice>() {
        Ok(slice) => {
            let times = if slice.num_slices() > 1 { format!("{}x", slice.num_slices()) } else { String::new() };
            format!("{times}{}", slice.topology_request().name)
        }
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(shown, expected, "{name}");
}

#[test]
fn spellings() {
    for name in
        ["v5litepod-16", "v5e-16", "v5lite-16", "V5E-16", "v5e:4x4", "v5e=4x4", "v5e_4x4", "v5e-4x4", " v5e:4×4 "]
    {
        check(name, "v5e:4x4");
    }
    for name in ["v5 lite:4x4", "TPU v5 lite:4x4", "tpu-v5e-16", "v5e 4x4", "v5e:4x4x1", "tpu-v5-lite-podslice:4x4"] {
        check(name, "v5e:4x4");
    }
    check("ct5lp-hightpu-4t:4x4", "v5e:4x4");
    check("ct5lp-hightpu-8t", "v5e:2x4");
    check("tpu7x-standard-4t", "tpu7x:2x2x1");
    check("v2-8", "v2:2x2");
    check("v3-32", "v3:4x4");
    check("v4-8", "v4:2x2x1");
    check("v4:2x2x1", "v4:2x2x1");
    check("v5p-128", "v5p:4x4x4");
    check("v5:4x4x4", "v5p:4x4x4");
    check("v5p:4x4x16", "v5p:4x4x16");
    check("v6e-256", "v6e:16x16");
    check("trillium-8", "v6e:2x4");
    check("v6 lite:2x2", "v6e:2x2");
    for name in ["tpu7x-8", "v7x-8", "v7-8", "ironwood-8", "TPU7x:2x2x1", "tpu-v7x-8", "tpu7x-standard-4t:2x2x1"] {
        check(name, "tpu7x:2x2x1");
    }
    check("2xv5e-256", "2xv5e:16x16");
    check("2 x v5e-256", "2xv5e:16x16");
    check("128xtpu7x:4x4x4", "128xtpu7x:4x4x4");
    check("v5p:4x4x8_twisted", "v5p:4x4x8_twisted");
    check("v5p:4x4x8_untwisted", "v5p:4x4x8");
    check("v5p-256_twisted", "v5p:4x4x8_twisted");
}

#[test]
fn refusals_name_what_would_be_right() {
    check("", "error: empty slice name; write one such as v5e-16, v4-8 or tpu7x:4x4x4");
    check(
        "v5e",
        "error: v5e without a size; write for example v5litepod-1, v5litepod-4, v5litepod-8, v5litepod-16, \
         v5litepod-32, v5litepod-64, v5litepod-256",
    );
    check("v5-8", "error: \"v5-8\" names more than one TPU generation; write v5e-8 or v5p-8");
    check("v5:4x4", "error: \"v5\" names more than one TPU generation; write v5e or v5p");
    check("4x4x4", "error: topology 4x4x4 without a generation; write for example v5p:4x4x4");
    check(
        "tpu7-8",
        "error: unknown TPU generation \"tpu7\"; known are v2, v3, v4, v5e, v5p, v6e, tpu7x \
         (libtpu 0.0.51 refuses it; the chip sold is tpu7x)",
    );
    check(
        "v5p-slice",
        "error: \"slice\" is neither a number nor a topology of v5p; \
         write for example v5p-8, v5p-16, v5p-32, v5p-64, v5p-128, v5p-256, v5p-17920",
    );
    check(
        "v5p-4",
        "error: no slice v5p-4; next larger v5p-8; v5p-N counts TensorCores, 2 per chip; \
         did you mean v5p-8 for 4 chips?",
    );
    check("v4-9", "error: no slice v4-9; next smaller v4-8, next larger v4-16; v4-N counts TensorCores, 2 per chip");
    check("v5e-12", "error: no slice v5litepod-12; next smaller v5litepod-8, next larger v5litepod-16");
    check(
        "v5e-512",
        "error: no slice v5litepod-512; next smaller v5litepod-256; as several slices it is 2xv5litepod-256",
    );
    check(
        "v5e:4x2",
        "error: no slice v5e:4x2: dimensions are written smallest first; \
         with as many chips there is v5e:2x4; next smaller v5e:2x2, next larger v5e:4x4",
    );
    check(
        "v5e:2x2x2",
        "error: no slice v5e:2x2x2: a topology has 2 dimensions; \
         with as many chips there is v5e:2x4; next smaller v5e:2x2, next larger v5e:4x4",
    );
    check(
        "v4:2x2",
        "error: no slice v4:2x2: a topology has 3 dimensions; \
         with as many chips there is v4:2x2x1; next larger v4:2x2x2",
    );
    check(
        "v5p:4x4x10",
        "error: no slice v5p:4x4x10: dimensions beyond the small slices are multiples of 4; \
         next smaller v5p:4x4x8, next larger v5p:4x4x12",
    );
    check(
        "v5p:16x4x4",
        "error: no slice v5p:16x4x4: dimensions are written smallest first; \
         with as many chips there is v5p:4x8x8, v5p:4x4x16; next smaller v5p:4x4x12, next larger v5p:4x4x20",
    );
    check(
        "v5p:4x4x12_twisted",
        "error: no slice v5p:4x4x12: this shape cannot be twisted; \
         with as many chips there is v5p:4x4x12; next smaller v5p:4x4x8, next larger v5p:4x8x8",
    );
    check("2000xv5e-4", "error: 2000 slices; a job has 1 to 1024");
    check("0xv5e-4", "error: 0 slices; a job has 1 to 1024");
}

#[test]
fn refusals_can_be_matched() {
    let error = Slice::parse("tpu7x:4x4x260").unwrap_err();
    let Error::NoSuchShape { generation: Generation::Tpu7x, fault, .. } = error else { panic!("{error}") };
    assert_eq!(fault, ShapeFault::TooLong { longest: 256 });
    let error = Slice::parse("v4:16x16x20").unwrap_err();
    let Error::NoSuchShape { fault, smaller, larger, .. } = error else { panic!("{error}") };
    assert_eq!(fault, ShapeFault::TooManyChips { max_chips: 4096 });
    assert_eq!((smaller.as_deref(), larger), (Some("v4:16x16x16"), None));
}
