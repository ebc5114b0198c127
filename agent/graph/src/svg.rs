//! Draws the graph as SVG.

use std::collections::BTreeSet;

use crate::PushFmt;
use crate::bundle::{Line, lines};
use crate::layout::{HEAD, Layout, Rect, layout};
use crate::route::{Point, way};
use crate::text::fill;
use crate::{Graph, Node, Outcome};

/// The number of characters of an id that fit into a box.
const ID_SIGNS: usize = 29;

/// The number of characters of a function that fit next to the outcome.
const FUNCTION_SIGNS: usize = 24;

/// The radius of the rounded corners of lines.
const ROUND: i32 = 6;

/// The groups of modules: the name in the legend, the colour, and the modules.
const KINDS: &[(&str, &str, &[&str])] = &[
    (
        "files",
        "#2f6fb5",
        &[
            "file",
            "archive",
            "git",
            "ini",
            "augeas",
            "host",
            "alias",
            "ssh_auth",
            "ssh_known_hosts",
            "mount",
            "uci",
        ],
    ),
    (
        "packages",
        "#c77416",
        &[
            "pkg",
            "pkgrepo",
            "pip",
            "virtualenv",
            "debconf",
            "npm",
            "gem",
        ],
    ),
    (
        "services",
        "#2e8b57",
        &["service", "cron", "schedule", "beacon"],
    ),
    ("users", "#7d4fb0", &["user", "group"]),
    (
        "commands",
        "#b5364a",
        &["cmd", "module", "http", "event", "saltutil"],
    ),
    ("steps of an orchestration", "#0f8a8a", &["salt"]),
];

/// The name and colour for all other modules.
const OTHER: (&str, &str) = ("others", "#70757d");

fn kind(module: &str) -> (&'static str, &'static str) {
    let found = KINDS
        .iter()
        .find(|(_, _, modules)| modules.contains(&module));
    found.map_or(OTHER, |(name, color, _)| (name, color))
}

/// Returns the colour and the dashes of a requisite's line.
fn style(requisite: &str) -> (&'static str, &'static str) {
    match requisite.trim_end_matches("_any").trim_end_matches("_all") {
        "require" => ("#5b6470", ""),
        "watch" => ("#2e8b57", ""),
        "listen" => ("#2e8b57", "2 4"),
        "onchanges" => ("#2f6fb5", "7 4"),
        "onfail" => ("#c62f3e", "7 4"),
        "compensate" => ("#c62f3e", "2 4"),
        "prereq" => ("#9a52c4", "2 4"),
        _ => ("#5b6470", "1 3"),
    }
}

/// Escapes text for XML. Characters that XML does not allow are removed.
fn xml(text: &str) -> String {
    let sign = |sign: char| match sign {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' | '\t' => " ".to_owned(),
        sign if sign.is_control() || matches!(sign, '\u{fffe}' | '\u{ffff}') => String::new(),
        sign => sign.to_string(),
    };
    text.chars().map(sign).collect()
}

/// Shortens a text to `most` characters. The middle is removed, because the ends of a path are the
/// most informative parts.
fn short(text: &str, most: usize) -> String {
    let signs: Vec<char> = text.chars().collect();
    let Some(over) = signs.len().checked_sub(most).filter(|over| *over > 0) else {
        return text.to_owned();
    };
    let head = (signs.len() - over - 1) / 3;
    let (start, end) = signs.split_at(head);
    let tail = end.iter().skip(over + 1);
    start
        .iter()
        .chain(std::iter::once(&'…'))
        .chain(tail)
        .collect()
}

/// Returns the graph as SVG.
#[must_use]
pub fn svg(graph: &Graph) -> String {
    let groups = graph.groups();
    let (layout, lines) = laid_out(graph);
    let legend = legend(graph);
    let (width, height) = (layout.width.max(legend.1 + 24), layout.height + 56);
    let mut out = head(graph, width, height);
    for (frame, (name, members)) in groups.iter().enumerate() {
        put_frame(&mut out, layout.rect(frame), name, members.len());
    }
    let mut shared = std::collections::BTreeMap::new();
    for line in &lines {
        // Lines from one source share their lane, so they separate only where they must.
        let next = shared.len();
        let number = *shared.entry((line.from, line.kind)).or_insert(next);
        put_line(&mut out, graph, line, &way(&layout, line, number));
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        put_node(&mut out, node, layout.node(index));
    }
    out.push_fmt(format_args!(
        "<g transform=\"translate(24 {})\">{}</g>\n</svg>\n",
        height - 34,
        legend.0
    ));
    out
}

fn head(graph: &Graph, width: i32, height: i32) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<defs>"
    );
    let kinds: BTreeSet<&str> = graph.edges.iter().map(|edge| edge.kind).collect();
    for kind in kinds {
        let color = style(kind).0;
        out.push_fmt(format_args!("<marker id=\"{kind}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8Z\" fill=\"{color}\"/></marker>"));
    }
    let count = graph.nodes.len();
    let states = if count == 1 { "state" } else { "states" };
    out.push_fmt(format_args!("</defs>\n<text x=\"24\" y=\"32\" font-size=\"18\" font-weight=\"bold\" fill=\"#1d2430\">{}</text><text x=\"24\" y=\"50\" font-size=\"11\" fill=\"#5b6470\">{count} {states}; earlier states are to the left, or in a frame above</text>\n",
        xml(&graph.title)));
    out
}

fn put_frame(out: &mut String, rect: Rect, name: &str, count: usize) {
    let Rect {
        x,
        y,
        width,
        height,
    } = rect;
    let fit = usize::try_from(width - 60).unwrap_or_default() / 8;
    out.push_fmt(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#f5f7fa\" stroke=\"#c3cad4\"/><text x=\"{}\" y=\"{}\" font-size=\"12\" font-weight=\"bold\" fill=\"#414a57\">{}</text><text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#70757d\" text-anchor=\"end\">{count}</text>\n",
        x + 12,
        y + HEAD - 9,
        xml(&short(name, fit)),
        rect.right() - 12,
        y + HEAD - 9,));
}

fn put_node(out: &mut String, node: &Node, rect: Rect) {
    let Rect {
        x,
        y,
        width,
        height,
    } = rect;
    let (stroke, thick) = match node.outcome {
        Some(Outcome::Failed) => ("#c62f3e", 2),
        _ => ("#aab2bd", 1),
    };
    let function = format!("{}.{}", node.module, node.function);
    let named = match node.name.is_empty() || node.name == node.id {
        true => String::new(),
        false => format!("\n{}", node.name),
    };
    out.push_fmt(format_args!("<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"{}\" stroke=\"{stroke}\" stroke-width=\"{thick}\"/><rect x=\"{x}\" y=\"{y}\" width=\"5\" height=\"{height}\" rx=\"2\" fill=\"{}\"/><text x=\"{}\" y=\"{}\" font-size=\"11\" font-weight=\"bold\" fill=\"#1d2430\">{}</text><text x=\"{}\" y=\"{}\" font-size=\"10\" fill=\"#5b6470\">{}</text>",
        xml(&format!("{function}: {}{named}", node.id)),
        fill(node.outcome),
        kind(&node.module).1,
        x + 12,
        y + 16,
        xml(&short(&node.id, ID_SIGNS)),
        x + 12,
        y + 30,
        xml(&short(&function, FUNCTION_SIGNS)),));
    if let Some(outcome) = node.outcome {
        let weight = if outcome == Outcome::Failed {
            "bold"
        } else {
            "normal"
        };
        out.push_fmt(format_args!("<text x=\"{}\" y=\"{}\" font-size=\"10\" font-weight=\"{weight}\" fill=\"#1d2430\" text-anchor=\"end\">{}</text>",
            rect.right() - 6,
            y + 30,
            outcome.word()));
    }
    out.push_str("</g>\n");
}

/// Returns the SVG path of a line with rounded corners.
fn path(points: &[Point]) -> String {
    let mut out = String::new();
    for (at, &(x, y)) in points.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| points.get(before));
        let (Some(&before), Some(&after)) = (before, points.get(at + 1)) else {
            out.push_fmt(format_args!("{}{x} {y}", if at == 0 { "M" } else { "L" }));
            continue;
        };
        let (one, other) = (towards((x, y), before), towards((x, y), after));
        out.push_fmt(format_args!(
            "L{} {}Q{x} {y} {} {}",
            one.0, one.1, other.0, other.1
        ));
    }
    out
}

/// Returns a point near a corner, in the direction of another point.
fn towards((x, y): Point, (to_x, to_y): Point) -> Point {
    let step = |from: i32, to: i32| {
        let whole = to - from;
        from + whole.signum() * ROUND.min(whole.abs() / 2)
    };
    (step(x, to_x), step(y, to_y))
}

fn put_line(out: &mut String, graph: &Graph, line: &Line, points: &[Point]) {
    let (color, dashes) = style(line.kind);
    let dashes = match dashes {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    };
    let name = |end| match end {
        crate::bundle::End::Node(node) => graph.nodes.get(node).map(|node| node.id.clone()),
        crate::bundle::End::Group(group) => graph
            .groups()
            .get(group)
            .map(|(name, _)| format!("all states of {name}")),
    };
    let (from, to) = (
        name(line.from).unwrap_or_default(),
        name(line.to).unwrap_or_default(),
    );
    out.push_fmt(format_args!("<path d=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.3\"{dashes} marker-end=\"url(#{})\"><title>{}</title></path>\n",
        path(points),
        line.kind,
        xml(&format!("{to}: {} {from}", line.kind)),));
}

/// Returns the legend of the colours and lines, and its width.
fn legend(graph: &Graph) -> (String, i32) {
    let (mut out, mut x) = (String::new(), 0);
    let put = |out: &mut String, sign: String, word: &str, x: &mut i32| {
        out.push_fmt(format_args!("<g transform=\"translate({x} 0)\">{sign}<text x=\"36\" y=\"12\" font-size=\"11\" fill=\"#414a57\">{}</text></g>",
            xml(word)));
        *x += 56 + 7 * i32::try_from(word.len()).unwrap_or(9);
    };
    let kinds: BTreeSet<(&str, &str)> = graph.nodes.iter().map(|node| kind(&node.module)).collect();
    for (name, color) in kinds {
        let sign = format!("<rect x=\"18\" width=\"6\" height=\"15\" rx=\"2\" fill=\"{color}\"/>");
        put(&mut out, sign, name, &mut x);
    }
    let outcomes: BTreeSet<Outcome> = graph.nodes.iter().filter_map(|node| node.outcome).collect();
    for outcome in outcomes {
        let color = fill(Some(outcome));
        let sign = format!(
            "<rect width=\"26\" height=\"15\" rx=\"3\" fill=\"{color}\" stroke=\"#aab2bd\"/>"
        );
        put(&mut out, sign, outcome.word(), &mut x);
    }
    let requisites: BTreeSet<&str> = graph.edges.iter().map(|edge| edge.kind).collect();
    for requisite in requisites {
        let (color, dashes) = style(requisite);
        let sign = format!(
            "<path d=\"M0 8L28 8\" stroke=\"{color}\" stroke-width=\"1.5\" stroke-dasharray=\"{}\" marker-end=\"url(#{requisite})\"/>",
            if dashes.is_empty() { "none" } else { dashes }
        );
        put(&mut out, sign, requisite, &mut x);
    }
    (out, x)
}

/// Returns the layout of the graph and its lines.
pub(crate) fn laid_out(graph: &Graph) -> (Layout, Vec<Line>) {
    let groups = graph.groups();
    let mut frame_of = vec![0; graph.nodes.len()];
    for (frame, (_, members)) in groups.iter().enumerate() {
        for node in members {
            if let Some(own) = frame_of.get_mut(*node) {
                *own = frame;
            }
        }
    }
    let sizes: Vec<usize> = groups.iter().map(|(_, members)| members.len()).collect();
    let lines = lines(graph, &frame_of, &sizes);
    let members = groups.into_iter().map(|(_, members)| members).collect();
    (layout(members, frame_of, &lines), lines)
}
