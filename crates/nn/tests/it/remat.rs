//! Recomputation changes no loss.

use nn::layers::Dispatch;
use nn::models::{Llama, LlamaConfig, RunOptions};
use nn::{RematPolicy, StepOptions};

use crate::training::{deepseek, gemma, language, llama, losses, tokens};

#[test]
fn what_is_kept_changes_no_loss() {
    for config in [llama(None), gemma(), deepseek(Dispatch::Dense)] {
        of_one_model(&config);
    }
}

fn of_one_model(config: &LlamaConfig) {
    let of = |remat: RematPolicy| {
        let options = RunOptions { remat, ..RunOptions::default() };
        let programs = language(|key| Llama::init(key, config, &options), (2, 8), &StepOptions::default());
        losses(&programs, &tokens(2, 8), 3)
    };
    let expected = of(RematPolicy::None);
    assert!(expected[2] < expected[0], "{expected:?}");
    for remat in [
        RematPolicy::Full,
        RematPolicy::Dots,
        RematPolicy::DotsWithNoBatchDims,
        RematPolicy::SaveOnlyTheseNames(vec!["attention".into()]),
        RematPolicy::EveryLayers(2),
        RematPolicy::EveryLayers(4),
        RematPolicy::Offload { host: vec!["layer_input".into(), "query".into()], device: vec!["attention".into()] },
        RematPolicy::SaveOnlyTheseNames(nn::CHECKPOINT_NAMES.map(String::from).to_vec()),
    ] {
        // One layer and three are no whole groups.
        if config.mla.is_some() && matches!(remat, RematPolicy::EveryLayers(_)) {
            continue;
        }
        let actual = of(remat.clone());
        for (actual, expected) in actual.iter().zip(&expected) {
            assert!((actual - expected).abs() < 1e-5, "{remat:?}: {actual} instead of {expected}");
        }
    }
}
