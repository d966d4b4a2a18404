//! Pictures become the pixels that transformers' image processors make of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data::ImagePreprocessor;
use serde_json::{Value, json};

/// What transformers makes of a picture: `crates/testkit/python/image_inputs.py` wrote it.
const PEER: &str = include_str!("../data/image_inputs.json");

fn peer() -> (Value, Vec<u8>) {
    let peer: Value = serde_json::from_str(PEER).unwrap();
    let png = STANDARD.decode(peer["png"].as_str().unwrap()).unwrap();
    (peer, png)
}

#[test]
fn pixels_are_those_of_transformers() {
    let (peer, png) = peer();
    let cases = peer["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let made = ImagePreprocessor::of(&case["settings"]).unwrap().read(&png).unwrap();
        let shape: Vec<usize> = serde_json::from_value(case["shape"].clone()).unwrap();
        assert_eq!(made.dims(), shape, "{}", case["name"]);
        let expected: Vec<f32> = serde_json::from_value(case["values"].clone()).unwrap();
        let made = made.to_vec::<f32>().unwrap();
        let off = made.iter().step_by(5).zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // A step of 256 is 0.007 at the least.
        assert!(off < 1e-4, "{}: off by {off}", case["name"]);
        assert_eq!(made.len().div_ceil(5), expected.len());
    }
}

#[test]
fn settings_and_pictures_that_cannot_be_are_refused() {
    let refused = |settings: Value| ImagePreprocessor::of(&settings).unwrap_err().to_string();
    assert!(refused(json!({"image_processor_type": "FuyuImageProcessor"})).contains("FuyuImageProcessor"));
    assert!(refused(json!({"size": {"shortest_edge": 1_000_000}})).contains("1000000"));
    assert!(refused(json!({"size": {"height": 3}, "image_processor_type": "ViTImageProcessor"})).contains("size"));
    assert!(refused(json!({"image_std": [0.0, 1.0, 1.0]})).contains("image_std"));
    assert!(refused(json!({"resample": 9})).contains("resample 9"));
    assert!(refused(json!({"image_mean": [0.5, 0.5]})).contains("2 numbers"));
    assert!(refused(json!([1])).contains("preprocessor_config.json"));
    let (_, png) = peer();
    let usual = ImagePreprocessor::of(&json!({})).unwrap();
    assert_eq!(usual.read(&png).unwrap().dims(), [224, 224, 3]);
    for file in [&b""[..], b"GIF89a", &png[..png.len() / 2]] {
        assert!(usual.read(file).unwrap_err().to_string().contains("the image"));
    }
}
