//! The page about PyTorch lists the ops that have a rule: the list is made from the rules.

use std::path::PathBuf;

const START: &str = "<!-- ops: made from the rules by the test `ops_are_listed` -->\n";
const END: &str = "<!-- end of ops -->\n";
/// Characters of a line.
const WIDTH: usize = 150;

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pytorch.md")
}

/// Names in lines of a width.
fn wrapped(names: &[&str]) -> String {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let (mut text, mut line) = (String::new(), String::new());
    for name in sorted {
        let next = format!("`{name}`");
        if !line.is_empty() && line.len() + 1 + next.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&next);
    }
    format!("{text}{line}\n")
}

fn listed() -> String {
    let total = torch::translate::op_names().len();
    let mut text =
        format!("{total} ops have a rule; each covers all overloads, the in-place form (`relu_`) and `out=`.\n");
    for (title, names) in torch::translate::op_table() {
        text.push_str(&format!("\n**{title}** ({})\n\n{}", names.len(), wrapped(&names)));
    }
    text.push_str("\nThese are known and refused, with a remedy:\n");
    for (why, names) in torch::translate::refused_ops() {
        text.push_str(&format!("\n**{why}**\n\n{}", wrapped(&names)));
    }
    text
}

#[test]
fn ops_are_listed() {
    let text = std::fs::read_to_string(page()).unwrap();
    let (before, rest) = text.split_once(START).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let wanted = listed();
    if found == wanted {
        return;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page(), format!("{before}{START}{wanted}{END}{after}")).unwrap();
        return;
    }
    panic!("docs/pytorch.md lists other ops than have rules; run this test with UPDATE_GOLDEN=1");
}

#[test]
fn no_op_has_two_rules() {
    let mut names: Vec<&str> = torch::translate::op_table()
        .into_iter()
        .filter(|(title, _)| *title != "Views")
        .flat_map(|(_, names)| names)
        .collect();
    names.sort_unstable();
    let twice: Vec<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "{twice:?} have two rules");
}
