//! Findings of lint as diagnostics.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use lint::{Finding, Report, Severity};
use lsp_types::{
    Diagnostic, DiagnosticSeverity, NumberOrString, Position, PublishDiagnosticsParams, Range, Uri,
};
use value::secret;

use crate::documents::{Documents, column_of};
use crate::paths;

/// The maximum number of diagnostics of one file.
const OF_FILE_MAX: usize = 500;

/// Returns the diagnostics of each file: of the files with findings, of the open documents, and of
/// the files that had findings before. Remembers the files that have findings now.
pub(crate) fn of_report(
    report: &Report,
    documents: &Documents,
    before: &mut BTreeMap<PathBuf, Uri>,
) -> Vec<PublishDiagnosticsParams> {
    let mut all: BTreeMap<PathBuf, (Uri, Option<i32>, Vec<Diagnostic>)> = BTreeMap::new();
    // A finding names the path below the roots, and an editor may open the file through a link.
    let mut open: HashMap<PathBuf, &PathBuf> = HashMap::new();
    for (path, document) in documents.iter() {
        let entry = (document.uri.clone(), Some(document.version), Vec::new());
        all.insert(path.clone(), entry);
        open.insert(path.canonicalize().unwrap_or_else(|_| path.clone()), path);
    }
    for (path, uri) in std::mem::take(before) {
        all.entry(path).or_insert((uri, None, Vec::new()));
    }
    for finding in &report.findings {
        let path = PathBuf::from(&finding.file);
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let path = open.get(&real).map_or(path, |path| (*path).clone());
        let Some(uri) = uri_of(&path) else { continue };
        let entry = all.entry(path.clone());
        let (uri, _, found) = entry.or_insert((uri, None, Vec::new()));
        before.insert(path, uri.clone());
        if found.len() < OF_FILE_MAX {
            found.push(diagnostic(finding));
        }
    }
    let each = all.into_values();
    each.map(|(uri, version, diagnostics)| PublishDiagnosticsParams {
        uri,
        diagnostics,
        version,
    })
    .collect()
}

fn uri_of(path: &Path) -> Option<Uri> {
    path.is_absolute().then(|| paths::uri_of(path)).flatten()
}

fn diagnostic(finding: &Finding) -> Diagnostic {
    let mut message = format!("{}\nhelp: {}", finding.message, finding.help());
    if let Some(sls) = &finding.when {
        message.push_str(&format!(
            "\nfound while checking {sls}, which includes this file"
        ));
    }
    Diagnostic {
        range: range(finding),
        severity: Some(match finding.severity() {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Info => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(finding.code.code.to_owned())),
        source: Some("pinch".to_owned()),
        message: secret::text(&message).into_owned(),
        ..Diagnostic::default()
    }
}

/// Returns the range of the word at the place of a finding.
fn range(finding: &Finding) -> Range {
    let source = finding.source.as_str();
    let skip = usize::try_from(finding.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut signs = source.char_indices().skip(skip);
    let from = signs.next().map_or(source.len(), |(at, _)| at);
    let rest = source.get(from..).unwrap_or_default();
    let length = rest.find([' ', '\t', ':']).unwrap_or(rest.len()).max(1);
    let to = (from + length).min(source.len());
    let line = finding.line.saturating_sub(1);
    Range {
        start: Position::new(line, column_of(source, from)),
        end: Position::new(line, column_of(source, to)),
    }
}
