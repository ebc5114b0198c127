//! Computes the route of a line between boxes: along the gaps between rows and columns, never
//! through a box.

use crate::bundle::{End, Line};
use crate::layout::{CHANNEL, COLUMN_GAP, FRAME_GAP, HEAD, Layout, MARGIN, ROW_GAP, Rect};

/// The number of lines that run side by side in a gap before they share positions.
const LANES: i32 = 9;

/// A corner of a line.
pub(crate) type Point = (i32, i32);

/// Returns the corners of a line's route. `number` separates lines that share a gap.
pub(crate) fn way(layout: &Layout, line: &Line, number: usize) -> Vec<Point> {
    let lane = i32::try_from(number).unwrap_or_default() % LANES - LANES / 2;
    let (from, to) = (layout.frame(line.from), layout.frame(line.to));
    let mut points = match (line.from, line.to) {
        (End::Node(from), End::Node(to)) if layout.frame(line.from) == layout.frame(line.to) => {
            inside(layout, from, to, lane)
        }
        _ => {
            let mut points = leave(layout, line.from, lane);
            let mut rest = enter(layout, line.to, lane);
            between(layout, (from, to), &mut points, &rest, lane);
            points.append(&mut rest);
            points
        }
    };
    straightened(&mut points);
    points
}

/// Returns the position to the right of a box, in the gap before the next column.
fn gap_right(rect: Rect, lane: i32) -> i32 {
    rect.right() + COLUMN_GAP / 2 + lane * 3
}

fn gap_left(rect: Rect, lane: i32) -> i32 {
    rect.x - COLUMN_GAP / 2 + lane * 3
}

/// Returns the position in the gap between rows, on the side of a box that is nearer to `y`.
fn gap_towards(rect: Rect, y: i32, lane: i32) -> i32 {
    let shift = lane * (ROW_GAP - 4) / (2 * LANES);
    if y <= rect.middle() {
        rect.y - ROW_GAP / 2 + shift
    } else {
        rect.bottom() + ROW_GAP / 2 + shift
    }
}

/// Returns the route of a line inside a frame.
fn inside(layout: &Layout, from: usize, to: usize, lane: i32) -> Vec<Point> {
    let (start, end) = (layout.node(from), layout.node(to));
    let (first, last) = (layout.cell(from).column, layout.cell(to).column);
    if first < last && is_free(layout, from, first, last) {
        let x = gap_left(end, lane);
        return vec![
            (start.right(), start.middle()),
            (x, start.middle()),
            (x, end.middle()),
            (end.x, end.middle()),
        ];
    }
    if last > first {
        let (leave, arrive) = (gap_right(start, lane), gap_left(end, lane));
        let y = gap_towards(end, start.middle(), lane);
        return vec![
            (start.right(), start.middle()),
            (leave, start.middle()),
            (leave, y),
            (arrive, y),
            (arrive, end.middle()),
            (end.x, end.middle()),
        ];
    }
    // The line goes backwards, or stays in the same column: it passes around on the right.
    let (leave, arrive) = (gap_right(start, lane), gap_right(end, lane));
    let y = gap_towards(end, start.middle(), lane);
    vec![
        (start.right(), start.middle()),
        (leave, start.middle()),
        (leave, y),
        (arrive, y),
        (arrive, end.middle()),
        (end.right(), end.middle()),
    ]
}

/// Returns whether a state's row has no other box of the frame between two columns.
fn is_free(layout: &Layout, node: usize, first: usize, last: usize) -> bool {
    let row = layout.cell(node).row;
    let frame = layout.frames.get(layout.frame(End::Node(node)));
    let mut members = frame.into_iter().flat_map(|frame| &frame.members);
    !members.any(|other| {
        let cell = layout.cell(*other);
        cell.row == row && cell.column > first && cell.column < last
    })
}

/// Returns the route from a state or frame to the channel to the right of its frame.
fn leave(layout: &Layout, from: End, lane: i32) -> Vec<Point> {
    let frame = layout.rect(layout.frame(from));
    match from {
        End::Group(_) => vec![(frame.right(), frame.y + HEAD / 2)],
        End::Node(node) => {
            let (rect, column) = (layout.node(node), layout.cell(node).column);
            let mut points = vec![(rect.right(), rect.middle())];
            if !is_free(layout, node, column, usize::MAX) {
                let (x, y) = (gap_right(rect, lane), gap_towards(rect, frame.y, lane));
                points.extend([(x, rect.middle()), (x, y), (frame.right(), y)]);
            }
            points
        }
    }
}

/// Returns the route from the channel to the left of a frame to the frame or one of its states.
fn enter(layout: &Layout, to: End, lane: i32) -> Vec<Point> {
    let frame = layout.rect(layout.frame(to));
    match to {
        End::Group(_) => vec![(frame.x, frame.y + HEAD / 2)],
        End::Node(node) => {
            let (rect, column) = (layout.node(node), layout.cell(node).column);
            let is_free = column == 0 || is_first(layout, node, column);
            let mut points = vec![(rect.x, rect.middle())];
            if !is_free {
                let (x, y) = (gap_left(rect, lane), gap_towards(rect, frame.y, lane));
                points.splice(0..0, [(frame.x, y), (x, y), (x, rect.middle())]);
            }
            points
        }
    }
}

/// Returns whether a state's row has no other box of the frame to the left of it.
fn is_first(layout: &Layout, node: usize, column: usize) -> bool {
    let row = layout.cell(node).row;
    let frame = layout.frames.get(layout.frame(End::Node(node)));
    let mut members = frame.into_iter().flat_map(|frame| &frame.members);
    !members.any(|other| {
        let cell = layout.cell(*other);
        cell.row == row && cell.column < column
    })
}

/// Adds the route from frame to frame: up and down in the channels between columns of frames, and
/// across a column through one of its gaps.
fn between(
    layout: &Layout,
    (from, to): (usize, usize),
    points: &mut Vec<Point>,
    end: &[Point],
    lane: i32,
) {
    let column = |frame: usize| layout.frames.get(frame).and_then(|frame| frame.column);
    let (Some(first), Some(last)) = (column(from), column(to)) else {
        return;
    };
    let Some(&(_, target)) = end.first() else {
        return;
    };
    let shift = lane * (CHANNEL - 24) / (2 * LANES);
    // The channel is to the right of each column; step 0 is the margin to the left of the first
    // column.
    let channel = |step: usize| match step.checked_sub(1) {
        Some(column) => {
            let edge = layout.columns.get(column).map_or(0, |(_, right)| *right);
            edge + CHANNEL / 2 + shift
        }
        None => MARGIN / 2 + lane * 4,
    };
    let mut y = points.last().map_or(target, |(_, y)| *y);
    // A line to a frame in the same column or an earlier one arrives from the left.
    let steps: Vec<usize> = match first < last {
        true => (first + 1..=last).collect(),
        false => (last..=first + 1).rev().collect(),
    };
    for (at, step) in steps.iter().enumerate() {
        let x = channel(*step);
        points.push((x, y));
        let next = match steps.get(at + 1) {
            Some(next) => across(layout, (*step).min(*next), (y + target) / 2, lane),
            None => target,
        };
        points.push((x, next));
        y = next;
    }
}

/// Returns the gap in a column of frames that is nearest to `y`.
fn across(layout: &Layout, column: usize, y: i32, lane: i32) -> i32 {
    let own = layout
        .frames
        .iter()
        .filter(|frame| frame.column == Some(column));
    let gaps = own.flat_map(|frame| {
        let (above, below) = (
            frame.rect.y - FRAME_GAP / 2,
            frame.rect.bottom() + FRAME_GAP / 2,
        );
        [above, below]
    });
    let nearest = gaps.min_by_key(|gap| (gap - y).abs());
    nearest.unwrap_or(y) + lane * 2
}

/// Removes points at which the line does not turn.
fn straightened(points: &mut Vec<Point>) {
    points.dedup();
    let mut at = 1_usize;
    while let (Some(&before), Some(&here), Some(&after)) = (
        points.get(at.wrapping_sub(1)),
        points.get(at),
        points.get(at + 1),
    ) {
        let straight =
            (before.0 == here.0 && here.0 == after.0) || (before.1 == here.1 && here.1 == after.1);
        if straight {
            points.remove(at);
        } else {
            at += 1;
        }
    }
}
