//! Prints the stories that ship as `examples/text/stories.txt`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let text = train::data::stories(train::data::STORIES_SEED, train::data::STORIES_BYTES);
    std::io::stdout().write_all(text.as_bytes())
}
