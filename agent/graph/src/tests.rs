//! Tests with generated graphs.

use crate::bundle::{End, lines};
use crate::route::way;
use crate::svg::laid_out;
use crate::{Edge, Graph, Node, Outcome, dot, mermaid, svg};

/// Returns a graph of `count` states in frames of ten, each joined with some earlier ones. The same
/// seed gives the same graph.
fn made_up(count: usize, mut seed: u64) -> Graph {
    let mut random = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let nodes = (0..count).map(|n| Node {
        id: format!("/etc/some/where/number-{n}.conf"),
        module: ["file", "pkg", "service", "cmd"][n % 4].into(),
        function: "managed".into(),
        group: format!("app.part{}", n / 10),
        ..Node::default()
    });
    let nodes: Vec<Node> = nodes.collect();
    let mut edges = Vec::new();
    for to in 1..count {
        for _ in 0..random(3) {
            let near = random(3) > 0;
            let from = if near {
                to - 1 - random(to.min(5))
            } else {
                random(to)
            };
            let kind = ["require", "watch", "onchanges"][random(3)];
            edges.push(Edge { from, to, kind });
        }
    }
    let title = format!("{count} states");
    Graph {
        title,
        nodes,
        edges,
    }
}

#[test]
fn no_box_stands_on_another() {
    for seed in 0..20 {
        let graph = made_up(120, seed);
        let (layout, _) = laid_out(&graph);
        let all: Vec<_> = (0..graph.nodes.len())
            .map(|node| layout.node(node))
            .collect();
        for (at, one) in all.iter().enumerate() {
            let frame = layout.rect(layout.frame(End::Node(at)));
            assert!(one.x > frame.x && one.right() < frame.right());
            assert!(one.y > frame.y && one.bottom() < frame.bottom());
            for other in &all[at + 1..] {
                let apart = one.right() <= other.x
                    || other.right() <= one.x
                    || one.bottom() <= other.y
                    || other.bottom() <= one.y;
                assert!(apart, "{one:?} {other:?}");
            }
        }
        for (at, one) in layout.frames.iter().enumerate() {
            for other in &layout.frames[at + 1..] {
                let (one, other) = (one.rect, other.rect);
                let apart = one.right() <= other.x
                    || other.right() <= one.x
                    || one.bottom() <= other.y
                    || other.bottom() <= one.y;
                assert!(apart, "{one:?} {other:?}");
            }
        }
    }
}

#[test]
fn no_line_goes_through_a_box() {
    for seed in 0..20 {
        let graph = made_up(120, seed);
        let (layout, lines) = laid_out(&graph);
        for (number, line) in lines.iter().enumerate() {
            let points = way(&layout, line, number);
            let inside =
                |(x, y): &(i32, i32)| *x > 0 && *x < layout.width && *y > 0 && *y < layout.height;
            assert!(points.iter().all(inside), "{points:?}");
            for node in 0..graph.nodes.len() {
                let rect = layout.node(node);
                for pair in points.windows(2) {
                    let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                    let (top, bottom) = (low.1.min(high.1), low.1.max(high.1));
                    let through = low.0 < rect.right()
                        && high.0 > rect.x
                        && top < rect.bottom()
                        && bottom > rect.y;
                    assert!(
                        !through,
                        "seed {seed}: {line:?} through {node}: {points:?} {rect:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_comes_first_in_a_frame_stands_left() {
    let graph = made_up(60, 3);
    let (layout, lines) = laid_out(&graph);
    for line in lines {
        if let (End::Node(from), End::Node(to)) = (line.from, line.to)
            && layout.frame(line.from) == layout.frame(line.to)
        {
            assert!(layout.node(from).x < layout.node(to).x);
        }
    }
}

#[test]
fn a_requisite_on_a_whole_sls_is_one_line() {
    let mut graph = made_up(20, 0);
    graph.edges.clear();
    for from in 0..10 {
        for to in 10..20 {
            graph.edges.push(Edge {
                from,
                to,
                kind: "require",
            });
        }
    }
    let frame_of: Vec<usize> = (0..20).map(|node| node / 10).collect();
    let all = lines(&graph, &frame_of, &[10, 10]);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].from, all[0].to), (End::Group(0), End::Group(1)));
    graph.edges.pop();
    // One state does not need all states of the other frame: it gets separate lines.
    assert_eq!(lines(&graph, &frame_of, &[10, 10]).len(), 9 + 9);
}

#[test]
fn texts_of_users_stay_texts() {
    let node = Node {
        id: "a<b> & \"c\"\u{1}\n--> |x| `d`".into(),
        module: "cmd".into(),
        function: "run".into(),
        group: "it's \\ \"x\"".into(),
        outcome: Some(Outcome::Failed),
        ..Node::default()
    };
    let graph = Graph {
        title: "<t>".into(),
        nodes: vec![node],
        edges: vec![],
    };
    let picture = svg(&graph);
    assert!(
        picture.contains("&lt;t&gt;") && picture.contains("a&lt;b&gt; &amp; &quot;c&quot; --"),
        "{picture}"
    );
    assert!(picture.contains(">failed</text>") && !picture.contains('\u{1}'));
    let text = dot(&graph);
    assert!(text.contains("label=\"it's \\\\ \\\"x\\\"\""), "{text}");
    let text = mermaid(&graph);
    assert!(text.contains("n0[\"a#60;b#62; #38; #34;c#34;"), "{text}");
}

/// A cycle among frames, caused by requisites in both directions, can be drawn.
#[test]
fn frames_that_need_each_other_are_drawn() {
    let mut graph = made_up(20, 1);
    graph.edges = vec![
        Edge {
            from: 0,
            to: 12,
            kind: "require",
        },
        Edge {
            from: 11,
            to: 3,
            kind: "onchanges",
        },
        Edge {
            from: 13,
            to: 5,
            kind: "listen",
        },
    ];
    let (layout, lines) = laid_out(&graph);
    assert_eq!(lines.len(), 3);
    for (number, line) in lines.iter().enumerate() {
        assert!(way(&layout, line, number).len() >= 2);
    }
    assert!(svg(&graph).contains("marker-end=\"url(#listen)\""));
}
