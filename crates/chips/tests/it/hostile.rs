//! No text makes the readers panic.

use chips::{Generation, Overrides, Slice};

fn read(text: &str) {
    if let Ok(slice) = text.parse::<Slice>() {
        assert_eq!(slice.to_string().parse(), Ok(slice), "{text:?}");
    }
    let _ = Overrides::parse([text]);
    let _ = Generation::from_name(text);
}

#[test]
fn odd_texts() {
    let big = "9".repeat(40);
    for text in [
        "-",
        ":",
        "x",
        "xx",
        "1x",
        "0",
        "v",
        "v5e-",
        "v5e:",
        "v5e:x",
        "v5e:4x",
        "v5e:x4",
        "v5e:4xx4",
        "v5e:0x0",
        "v4-0",
        "v4:0x0x0",
        "v4:4x4x4x4",
        "v5p:4294967295x4294967295x4294967295",
        "v5e-18446744073709551616",
        "-v5e-4",
        "18446744073709551615xv5e-4",
        "4294967296xv5e-4",
        "xv5e-4",
        "2x2xv5e-4",
        "2xct5lp-hightpu-4t",
        "２xv5e-4",
        "v5e-１６",
        "vⅤe-8",
        "🦀-8",
        "İ:4x4",
        "v5e:4x4_twisted_twisted",
        "_twisted",
        "v5e_twisted",
        "\0",
        "v4-\n8",
        "tpu",
        "tpu-",
        "tpu  v4-8",
        "=",
        "v7_memory_gb=",
        "v7_memory_gb=NaN",
        "v7_memory_gb=1e400",
        "_=1",
        "a=b=c",
    ] {
        read(text);
    }
    for text in [big.clone(), format!("v4-{big}"), format!("v4:{big}x{big}x{big}"), format!("{big}xv4-8")] {
        read(&text);
        read(&text.repeat(100));
    }
}

/// Every prefix of real names with every character of a small alphabet put in every place.
#[test]
fn mutated_names() {
    let alphabet = ['x', '-', ':', '_', '0', '9', 'v', 't', ' ', '=', '×', 'é', '\u{0}', '🦀'];
    for name in ["2xv5litepod-256", "v5p:4x4x8_twisted", "tpu-v5-lite-podslice:4x4", "ct6e-standard-8t", "v7_price=1.5"]
    {
        for at in 0..=name.len() {
            let (head, tail) = name.split_at(at);
            read(head);
            read(tail);
            for c in alphabet {
                read(&format!("{head}{c}{tail}"));
                let rest: String = tail.chars().skip(1).collect();
                read(&format!("{head}{c}{rest}"));
            }
        }
    }
}
