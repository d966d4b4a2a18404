//! The reports and profiles in the folder of a run.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::alert_log::shortened;

/// Entries of folders that are looked at, at most.
const MAX_ENTRIES: usize = 5000;
/// Levels below the run's folder.
const MAX_DEPTH: usize = 6;
/// Reports, and profiles, that are listed.
const MAX_LISTED: usize = 100;
/// Bytes in which a title is looked for.
const HEAD_BYTES: u64 = 4096;
/// Largest report that is served.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// What is in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportFiles {
    /// HTML pages, with what they are called.
    pub(super) reports: Vec<ReportFile>,
    /// Profiles (`*.xplane.pb`), by their path in the folder.
    pub(super) profiles: Vec<String>,
}

/// A page in the folder of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ReportFile {
    /// Its path in the folder.
    pub(super) path: String,
    /// Its title.
    pub(super) title: String,
}

/// Looks for pages and profiles. Links are not followed, so that nothing outside the folder is shown.
pub(super) fn find(run: &Path) -> ReportFiles {
    let mut found = ReportFiles::default();
    let mut pending = vec![(run.to_path_buf(), 0)];
    let mut entries = 0;
    while let Some((folder, depth)) = pending.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            entries += 1;
            if entries > MAX_ENTRIES {
                break;
            }
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let Some(name) = path.strip_prefix(run).ok().and_then(Path::to_str) else { continue };
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if kind.is_dir() && depth < MAX_DEPTH && !is_hidden && name != "checkpoints" {
                pending.push((path, depth + 1));
            } else if kind.is_file() && name.ends_with(".html") && found.reports.len() < MAX_LISTED {
                let title = title(&path).unwrap_or_else(|| name.to_string());
                found.reports.push(ReportFile { path: name.to_string(), title });
            } else if kind.is_file() && name.ends_with(".xplane.pb") && found.profiles.len() < MAX_LISTED {
                found.profiles.push(name.to_string());
            }
        }
    }
    found.reports.sort_by(|a, b| a.path.cmp(&b.path));
    found.profiles.sort();
    found
}

/// The bytes of a report that was found.
pub(super) fn read(run: &Path, report: &ReportFile) -> std::io::Result<Vec<u8>> {
    let path: PathBuf = run.join(&report.path);
    let metadata = std::fs::symlink_metadata(&path)?;
    // It was a file when it was found.
    if !metadata.is_file() || metadata.len() > MAX_REPORT_BYTES {
        return Err(std::io::Error::other(format!("it is no file of at most {} MiB", MAX_REPORT_BYTES >> 20)));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_REPORT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a page calls itself.
fn title(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    let head = String::from_utf8_lossy(&bytes);
    let (_, rest) = head.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    let mut text = title.trim().to_string();
    for (written, meant) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
        text = text.replace(written, meant);
    }
    Some(shortened(&text)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_profiles_are_found_and_links_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        std::fs::create_dir_all(run.join("a/b")).unwrap();
        std::fs::create_dir_all(run.join("checkpoints")).unwrap();
        std::fs::write(run.join("fit.html"), "<html><title> a &lt;b&gt; &amp;amp; </title>").unwrap();
        std::fs::write(run.join("a/b/none.html"), [0xff, 0xfe]).unwrap();
        std::fs::write(run.join("a/b/host.xplane.pb"), "").unwrap();
        std::fs::write(run.join("checkpoints/no.html"), "").unwrap();
        std::fs::write(folder.path().join("secret.html"), "").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret.html"), run.join("link.html")).unwrap();
        std::os::unix::fs::symlink(folder.path(), run.join("up")).unwrap();
        let found = find(&run);
        let told: Vec<(&str, &str)> = found.reports.iter().map(|r| (r.path.as_str(), r.title.as_str())).collect();
        assert_eq!(told, [("a/b/none.html", "a/b/none.html"), ("fit.html", "a <b> &amp;")]);
        assert_eq!(found.profiles, ["a/b/host.xplane.pb"]);
        assert_eq!(read(&run, &found.reports[0]).unwrap(), [0xff, 0xfe]);
        // A file that became a link since is not read.
        std::fs::remove_file(run.join("fit.html")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret.html"), run.join("fit.html")).unwrap();
        assert!(read(&run, &found.reports[1]).is_err());
    }
}
