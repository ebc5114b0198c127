//! Formats the graph as text for other programs: DOT and Mermaid.

use crate::PushFmt;
use crate::{Graph, Node, Outcome};

/// Returns the fill colour of a state's box for an outcome.
pub(crate) const fn fill(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "#ffffff",
        Some(Outcome::Ok) => "#e3f4e3",
        Some(Outcome::Changed) => "#d6ebfa",
        Some(Outcome::Would) => "#fff3c9",
        Some(Outcome::Skipped) => "#ececec",
        Some(Outcome::Failed) => "#fbd5d5",
        Some(Outcome::Unknown) => "#f8f8f8",
    }
}

fn label(node: &Node) -> String {
    let outcome = node.outcome.map(|outcome| format!(", {}", outcome.word()));
    let outcome = outcome.unwrap_or_default();
    format!("{}.{}{outcome}", node.module, node.function)
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', " "))
}

/// Returns the graph in Graphviz's language DOT.
#[must_use]
pub fn dot(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph states {\n  rankdir=LR;\n  node [shape=box, style=filled, fillcolor=white, fontname=\"sans-serif\"];\n",
    );
    for (number, (name, members)) in graph.groups().into_iter().enumerate() {
        out.push_fmt(format_args!(
            "  subgraph cluster_{number} {{\n    label={};\n",
            quoted(name)
        ));
        for index in members {
            let Some(node) = graph.nodes.get(index) else {
                continue;
            };
            let text = quoted(&format!("{}\u{1}{}", node.id, label(node)));
            let text = text.replace('\u{1}', "\\n");
            out.push_fmt(format_args!(
                "    n{index} [label={text}, fillcolor={}];\n",
                quoted(fill(node.outcome))
            ));
        }
        out.push_str("  }\n");
    }
    for edge in &graph.edges {
        out.push_fmt(format_args!(
            "  n{} -> n{} [label={}];\n",
            edge.from,
            edge.to,
            quoted(edge.kind)
        ));
    }
    out.push_str("}\n");
    out
}

/// Escapes text for a label of Mermaid, which supports numeric HTML entities.
fn entity(text: &str) -> String {
    let sign = |sign: char| match sign {
        '"' | '<' | '>' | '&' | '#' | '`' => format!("#{};", u32::from(sign)),
        '\n' => " ".to_owned(),
        sign => sign.to_string(),
    };
    text.chars().map(sign).collect()
}

/// Returns the graph in Mermaid's language, which many sites render in Markdown.
#[must_use]
pub fn mermaid(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    for (number, (name, members)) in graph.groups().into_iter().enumerate() {
        out.push_fmt(format_args!("  subgraph g{number}[\"{}\"]\n", entity(name)));
        for index in members {
            if let Some(node) = graph.nodes.get(index) {
                let (id, label) = (entity(&node.id), entity(&label(node)));
                out.push_fmt(format_args!("    n{index}[\"{id}<br/>{label}\"]\n"));
            }
        }
        out.push_str("  end\n");
    }
    for edge in &graph.edges {
        out.push_fmt(format_args!(
            "  n{} -->|{}| n{}\n",
            edge.from, edge.kind, edge.to
        ));
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        if node.outcome.is_some() {
            out.push_fmt(format_args!(
                "  style n{index} fill:{}\n",
                fill(node.outcome)
            ));
        }
    }
    out
}
