//! The files that are served: an application's page and static files.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use machine::fs::no_links::open_real;

use super::failure::Failure;
use crate::http::Answer;

/// The number of bytes that are read at once.
const PIECE: usize = 64 << 10;

/// The types of files by the endings of their names.
const KINDS: [(&str, &str); 20] = [
    ("css", "text/css; charset=utf-8"),
    ("eot", "application/vnd.ms-fontobject"),
    ("gif", "image/gif"),
    ("htm", HTML),
    ("html", HTML),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
];
const HTML: &str = "text/html; charset=utf-8";
const OTHER: &str = "application/octet-stream";

/// Returns the type of a file by the ending of its name.
fn kind(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    let found = KINDS.iter().find(|(known, _)| *known == ending);
    found.map_or(OTHER, |(_, kind)| kind)
}

fn not_found(url: &str) -> Failure {
    let url: String = url.chars().take(200).collect();
    Failure::new(404, format!("The path '{url}' was not found."))
}

/// Returns the answer with a file that the configuration names.
pub(super) async fn named(path: &Path, url: &str) -> Result<Answer, Failure> {
    let path = path.to_owned();
    let real = smol::unblock(move || path.canonicalize()).await;
    let real = real.map_err(|_| not_found(url))?;
    sent(real, url).await
}

/// Returns the answer with a file below a folder. No part of its path below the folder may be a
/// link, or a name that leads out of the folder.
pub(super) async fn below(folder: &Path, rest: &str, url: &str) -> Result<Answer, Failure> {
    let rest = relative(rest).ok_or_else(|| not_found(url))?;
    let folder = folder.to_owned();
    let folder = smol::unblock(move || folder.canonicalize()).await;
    let folder = folder.map_err(|_| not_found(url))?;
    sent(folder.join(rest), url).await
}

/// Returns a path of a URL as a relative path of normal names.
fn relative(rest: &str) -> Option<PathBuf> {
    let bytes = crate::http::quoted::unquoted(rest.trim_start_matches('/'));
    let text = String::from_utf8(bytes).ok()?;
    let path = PathBuf::from(text.as_str());
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    let is_fit = !text.is_empty() && !text.contains('\0') && path.components().all(is_normal);
    is_fit.then_some(path)
}

/// Returns the answer with a file at a path without links.
async fn sent(real: PathBuf, url: &str) -> Result<Answer, Failure> {
    let kind = kind(&real);
    let opened = smol::unblock(move || {
        let file = open_real(&real)?;
        let size = file.metadata()?.len();
        Ok::<_, std::io::Error>((file, size))
    });
    let (file, size) = opened.await.map_err(|_| not_found(url))?;
    let pieces = smol::stream::unfold((file, size), |(file, left)| async move {
        let (file, piece) = smol::unblock(move || piece(file, left)).await?;
        let left = left.saturating_sub(piece.len() as u64);
        Some((piece, (file, left)))
    });
    let answer = Answer::pieces(kind, pieces).with("Content-Length", size.to_string());
    Ok(answer.with("X-Content-Type-Options", "nosniff"))
}

/// Reads the next piece of a file. Returns `None` at its end. An error ends the connection, because
/// fewer bytes than announced are sent.
fn piece(mut file: File, left: u64) -> Option<(File, Vec<u8>)> {
    let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
    let mut piece = vec![0; most];
    let count = file.read(&mut piece).ok()?;
    piece.truncate(count);
    (count > 0).then_some((file, piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_does_not_leave_its_folder() {
        assert_eq!(relative("/a/b%20c.js"), Some(PathBuf::from("a/b c.js")));
        for bad in [
            "",
            "/",
            "..",
            "/../x",
            "/a/../../x",
            "/%2e%2e/x",
            "/a%00b",
            "/%2fetc/passwd",
        ] {
            assert_eq!(relative(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_file_has_the_type_of_its_ending() {
        assert_eq!(kind(Path::new("a.HTML")), HTML);
        assert_eq!(
            kind(Path::new("a.min.js")),
            "text/javascript; charset=utf-8"
        );
        assert_eq!(kind(Path::new("a")), OTHER);
    }
}
