//! Computes the positions of boxes and frames.
//!
//! Both are arranged in layers in the same way. A box is one column to the right of the rightmost
//! box that it needs. The boxes of a column are sorted by the mean position of their neighbours.
//! Boxes are placed on a grid, so the gaps between rows extend through all columns.

use std::collections::BTreeMap;

use crate::bundle::{End, Line};

pub(crate) const BOX_WIDTH: i32 = 214;
pub(crate) const BOX_HEIGHT: i32 = 38;
pub(crate) const COLUMN_GAP: i32 = 46;
pub(crate) const ROW_GAP: i32 = 16;
const PADDING: i32 = 16;
pub(crate) const HEAD: i32 = 28;
/// The distance between the columns of frames.
pub(crate) const CHANNEL: i32 = 88;
/// The vertical distance between frames.
pub(crate) const FRAME_GAP: i32 = 30;
const TOP: i32 = 64;
pub(crate) const MARGIN: i32 = 48;

/// The maximum number of boxes in a column; a longer column is split.
const MOST_ROWS: usize = 18;

/// The number of times that boxes are sorted by their neighbours.
const SWEEPS: usize = 6;

/// The maximum ratio of width to height before columns of frames are put below each other.
const WIDEST: i32 = 2;

/// The minimum height of a column of frames before another one is begun.
const LEAST_HEIGHT: i32 = 900;

/// The position and size of a frame, or of a box in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rect {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

impl Rect {
    pub(crate) const fn right(self) -> i32 {
        self.x + self.width
    }

    pub(crate) const fn bottom(self) -> i32 {
        self.y + self.height
    }

    pub(crate) const fn middle(self) -> i32 {
        self.y + self.height / 2
    }
}

/// A position on the grid of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) column: usize,
    pub(crate) row: usize,
}

/// A frame and its states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) members: Vec<usize>,
    pub(crate) rect: Rect,
    /// The column of frames that contains it; `None` for a frame without lines to others.
    pub(crate) column: Option<usize>,
}

/// The positions of all frames and boxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) frames: Vec<Frame>,
    /// The frame of each state.
    pub(crate) frame_of: Vec<usize>,
    /// The cell of each state in its frame.
    pub(crate) cells: Vec<Cell>,
    /// The left and right edge of each column of frames.
    pub(crate) columns: Vec<(i32, i32)>,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

fn to_i32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX / 1024)
}

impl Layout {
    pub(crate) fn frame(&self, of: End) -> usize {
        match of {
            End::Group(frame) => frame,
            End::Node(node) => self.frame_of.get(node).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn cell(&self, node: usize) -> Cell {
        self.cells.get(node).copied().unwrap_or_default()
    }

    pub(crate) fn rect(&self, frame: usize) -> Rect {
        self.frames
            .get(frame)
            .map(|frame| frame.rect)
            .unwrap_or_default()
    }

    /// Returns the box of a state.
    pub(crate) fn node(&self, node: usize) -> Rect {
        let (frame, cell) = (self.rect(self.frame(End::Node(node))), self.cell(node));
        Rect {
            x: frame.x + PADDING + to_i32(cell.column) * (BOX_WIDTH + COLUMN_GAP),
            y: frame.y + HEAD + PADDING / 2 + to_i32(cell.row) * (BOX_HEIGHT + ROW_GAP),
            width: BOX_WIDTH,
            height: BOX_HEIGHT,
        }
    }
}

/// Computes the layout of frames with these states. `lines` are the lines of the picture.
pub(crate) fn layout(groups: Vec<Vec<usize>>, frame_of: Vec<usize>, lines: &[Line]) -> Layout {
    let mut layout = Layout {
        cells: vec![Cell::default(); frame_of.len()],
        frame_of,
        ..Layout::default()
    };
    for members in groups {
        let (frame, cells) = framed(members, lines);
        for (node, cell) in frame.members.iter().zip(cells) {
            if let Some(place) = layout.cells.get_mut(*node) {
                *place = cell;
            }
        }
        layout.frames.push(frame);
    }
    place_frames(&mut layout, lines);
    layout
}

/// Returns a frame and the cells of its members.
fn framed(members: Vec<usize>, lines: &[Line]) -> (Frame, Vec<Cell>) {
    let place = |end: End| match end {
        End::Node(node) => members.binary_search(&node).ok(),
        End::Group(_) => None,
    };
    let edges: Vec<(usize, usize)> = lines
        .iter()
        .filter_map(|line| Some((place(line.from)?, place(line.to)?)))
        .collect();
    let mut cells = vec![Cell::default(); members.len()];
    let (mut row, mut columns, mut alone) = (0, 1, Vec::new());
    for part in parts(members.len(), &edges) {
        if let [one] = part.as_slice() {
            alone.push(*one);
            continue;
        }
        let (placed, rows) = part_cells(&part, &edges);
        for (node, cell) in part.into_iter().zip(placed) {
            columns = columns.max(cell.column + 1);
            put(&mut cells, node, cell.column, row + cell.row);
        }
        row += rows;
    }
    let wanted = (alone.len() as f64 / 5.0).sqrt().ceil() as usize;
    columns = columns.max(wanted);
    for (at, node) in alone.iter().enumerate() {
        put(&mut cells, *node, at % columns, row + at / columns);
    }
    row += alone.len().div_ceil(columns);
    let width = to_i32(columns) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP + 2 * PADDING;
    let height = HEAD + to_i32(row) * (BOX_HEIGHT + ROW_GAP) + PADDING / 2;
    let rect = Rect {
        width,
        height,
        ..Rect::default()
    };
    let frame = Frame {
        members,
        rect,
        column: None,
    };
    (frame, cells)
}

fn put(cells: &mut [Cell], node: usize, column: usize, row: usize) {
    if let Some(cell) = cells.get_mut(node) {
        *cell = Cell { column, row };
    }
}

/// Returns the connected components, each in the order of its members.
fn parts(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut root: Vec<usize> = (0..count).collect();
    fn find(root: &[usize], mut node: usize) -> usize {
        while let Some(&up) = root.get(node)
            && up != node
        {
            node = up;
        }
        node
    }
    for &(from, to) in edges {
        let (one, other) = (find(&root, from), find(&root, to));
        let (low, high) = (one.min(other), one.max(other));
        if let Some(up) = root.get_mut(high) {
            *up = low;
        }
    }
    let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for node in 0..count {
        parts.entry(find(&root, node)).or_default().push(node);
    }
    parts.into_values().collect()
}

/// Returns the layer of each of `count` items. An item is one layer to the right of the rightmost
/// one that it needs. An item that needs nothing is next to the nearest one that needs it. Edges
/// that point backwards are ignored.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut forward: Vec<(usize, usize)> = edges
        .iter()
        .copied()
        .filter(|(from, to)| from < to)
        .collect();
    forward.sort_by_key(|&(_, to)| to);
    let mut layer = vec![0_usize; count];
    let at = |layer: &[usize], node: usize| layer.get(node).copied().unwrap_or_default();
    for &(from, to) in &forward {
        let least = at(&layer, from) + 1;
        if let Some(own) = layer.get_mut(to) {
            *own = (*own).max(least);
        }
    }
    let has_needs: Vec<usize> = forward.iter().map(|&(_, to)| to).collect();
    for node in 0..count {
        if has_needs.binary_search(&node).is_ok() {
            continue;
        }
        let waiting = forward.iter().filter(|(from, _)| *from == node);
        let next = waiting.map(|&(_, to)| at(&layer, to)).min();
        if let (Some(next), Some(own)) = (next, layer.get_mut(node)) {
            *own = next.saturating_sub(1);
        }
    }
    layer
}

/// Returns the cells of a connected component of a frame, and its number of rows.
fn part_cells(part: &[usize], edges: &[(usize, usize)]) -> (Vec<Cell>, usize) {
    let place = |node: usize| part.binary_search(&node).ok();
    let own: Vec<(usize, usize)> = edges
        .iter()
        .filter_map(|&(from, to)| Some((place(from)?, place(to)?)))
        .collect();
    let mut columns: Vec<Vec<usize>> = Vec::new();
    for (node, layer) in layers(part.len(), &own).into_iter().enumerate() {
        columns.resize_with(columns.len().max(layer + 1), Vec::new);
        if let Some(column) = columns.get_mut(layer) {
            column.push(node);
        }
    }
    let neighbours = neighbours(part.len(), &own);
    ordered(&mut columns, &neighbours);
    let columns: Vec<Vec<usize>> = columns
        .iter()
        .flat_map(|column| column.chunks(MOST_ROWS).map(<[usize]>::to_vec))
        .collect();
    let rows = rows(&columns, &neighbours, part.len());
    let mut cells = vec![Cell::default(); part.len()];
    for (at, column) in columns.iter().enumerate() {
        for node in column {
            put(
                &mut cells,
                *node,
                at,
                rows.get(*node).copied().unwrap_or_default(),
            );
        }
    }
    let height = rows.iter().max().map_or(0, |row| row + 1);
    (cells, height)
}

fn neighbours(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); count];
    for &(from, to) in edges {
        for (one, other) in [(from, to), (to, from)] {
            if let Some(list) = all.get_mut(one) {
                list.push(other);
            }
        }
    }
    all
}

/// Sorts each column by the mean position of the neighbours, several times.
fn ordered(columns: &mut [Vec<usize>], neighbours: &[Vec<usize>]) {
    let mut place = vec![0.0_f64; neighbours.len()];
    let note = |place: &mut [f64], column: &[usize]| {
        let half = column.len() as f64 / 2.0;
        for (at, node) in column.iter().enumerate() {
            if let Some(own) = place.get_mut(*node) {
                *own = at as f64 - half;
            }
        }
    };
    for column in columns.iter() {
        note(&mut place, column);
    }
    for sweep in 0..SWEEPS {
        let count = columns.len();
        for step in 0..count {
            let at = if sweep % 2 == 0 {
                step
            } else {
                count - 1 - step
            };
            let Some(column) = columns.get_mut(at) else {
                continue;
            };
            let mut keyed: Vec<(f64, usize)> = column
                .iter()
                .map(|node| (mean(neighbours, *node, &place), *node))
                .collect();
            keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
            *column = keyed.into_iter().map(|(_, node)| node).collect();
            note(&mut place, column);
        }
    }
}

/// Returns the mean position of the neighbours of a node, or its own position if it has none.
fn mean(neighbours: &[Vec<usize>], node: usize, place: &[f64]) -> f64 {
    let at = |node: usize| place.get(node).copied().unwrap_or_default();
    match neighbours.get(node).filter(|list| !list.is_empty()) {
        Some(list) => list.iter().map(|other| at(*other)).sum::<f64>() / list.len() as f64,
        None => at(node),
    }
}

/// Returns a row for each node, as near to its neighbours' as the order of its column allows.
fn rows(columns: &[Vec<usize>], neighbours: &[Vec<usize>], count: usize) -> Vec<usize> {
    let mut place = vec![0.0_f64; count];
    for column in columns {
        for (at, node) in column.iter().enumerate() {
            if let Some(own) = place.get_mut(*node) {
                *own = at as f64;
            }
        }
    }
    for turn in 0..3 {
        for step in 0..columns.len() {
            let at = if turn % 2 == 0 {
                step
            } else {
                columns.len() - 1 - step
            };
            let column = columns.get(at).map(Vec::as_slice).unwrap_or_default();
            let mut next = 0.0_f64;
            for node in column {
                let row = mean(neighbours, *node, &place).round().max(next);
                if let Some(own) = place.get_mut(*node) {
                    *own = row;
                }
                next = row + 1.0;
            }
        }
    }
    without_empty(&place)
}

/// Returns the rows renumbered without the empty ones.
fn without_empty(place: &[f64]) -> Vec<usize> {
    let whole: Vec<i64> = place.iter().map(|row| *row as i64).collect();
    let mut used = whole.clone();
    used.sort_unstable();
    used.dedup();
    let row = |row: &i64| used.binary_search(row).unwrap_or_default();
    whole.iter().map(row).collect()
}

/// Puts columns below each other while the picture is much wider than high. Begins with the two
/// adjacent columns that are lowest together.
fn folded(layout: &Layout, mut columns: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let width = |column: &Vec<usize>| {
        let widths = column.iter().map(|frame| layout.rect(*frame).width);
        widths.max().unwrap_or_default() + CHANNEL
    };
    let height = |column: &Vec<usize>| -> i32 {
        let heights = column
            .iter()
            .map(|frame| layout.rect(*frame).height + FRAME_GAP);
        heights.sum()
    };
    while columns.len() > 1 {
        let (wide, high) = (
            columns.iter().map(width).sum::<i32>(),
            columns.iter().map(height).max(),
        );
        if wide <= high.unwrap_or_default() * WIDEST {
            break;
        }
        let pairs = columns
            .windows(2)
            .enumerate()
            .map(|(at, pair)| (pair.iter().map(height).sum::<i32>(), at));
        let Some((_, at)) = pairs.min() else { break };
        let below = columns.remove(at + 1);
        if let Some(column) = columns.get_mut(at) {
            column.extend(below);
        }
    }
    columns
}

/// Puts the frames that are joined by lines into columns, and the others below them.
fn place_frames(layout: &mut Layout, lines: &[Line]) {
    let count = layout.frames.len();
    let mut edges: Vec<(usize, usize)> = lines
        .iter()
        .map(|line| (layout.frame(line.from), layout.frame(line.to)))
        .filter(|(from, to)| from != to)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let neighbours = neighbours(count, &edges);
    let joined = |frame: usize| neighbours.get(frame).is_some_and(|list| !list.is_empty());
    let mut columns: Vec<Vec<usize>> = Vec::new();
    for (frame, layer) in layers(count, &edges).into_iter().enumerate() {
        if joined(frame) {
            columns.resize_with(columns.len().max(layer + 1), Vec::new);
            if let Some(column) = columns.get_mut(layer) {
                column.push(frame);
            }
        }
    }
    columns.retain(|column| !column.is_empty());
    ordered(&mut columns, &neighbours);
    let area: f64 = layout
        .frames
        .iter()
        .map(|frame| f64::from(frame.rect.width) * f64::from(frame.rect.height))
        .sum();
    let tallest = layout
        .frames
        .iter()
        .map(|frame| frame.rect.height)
        .max()
        .unwrap_or_default();
    let most = LEAST_HEIGHT.max((area * 0.8).sqrt() as i32).max(tallest);
    let columns = columns
        .iter()
        .flat_map(|column| broken(layout, column, most))
        .collect::<Vec<_>>();
    let columns = folded(layout, columns);
    let (mut x, mut bottom) = (MARGIN, TOP);
    for (at, column) in columns.iter().enumerate() {
        let widest = column
            .iter()
            .map(|frame| layout.rect(*frame).width)
            .max()
            .unwrap_or_default();
        let mut y = TOP;
        for index in column {
            if let Some(frame) = layout.frames.get_mut(*index) {
                (frame.rect.x, frame.rect.y, frame.column) = (x, y, Some(at));
                y = frame.rect.bottom() + FRAME_GAP;
            }
        }
        layout.columns.push((x, x + widest));
        bottom = bottom.max(y);
        x += widest + CHANNEL;
    }
    let right = if columns.is_empty() {
        MARGIN
    } else {
        x - CHANNEL
    };
    shelves(layout, bottom, right, most);
}

/// Splits a column of frames into several, none much higher than `most`.
fn broken(layout: &Layout, column: &[usize], most: i32) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    let mut height = 0;
    for frame in column {
        let own = layout.rect(*frame).height + FRAME_GAP;
        if height > 0 && height + own > most {
            all.push(Vec::new());
            height = 0;
        }
        height += own;
        if let Some(last) = all.last_mut() {
            last.push(*frame);
        }
    }
    all
}

/// Puts frames without lines to others into columns below the rest.
fn shelves(layout: &mut Layout, top: i32, right: i32, most: i32) {
    let loose: Vec<usize> = (0..layout.frames.len())
        .filter(|frame| {
            layout
                .frames
                .get(*frame)
                .is_some_and(|frame| frame.column.is_none())
        })
        .collect();
    let total: i32 = loose
        .iter()
        .map(|frame| layout.rect(*frame).height + FRAME_GAP)
        .sum();
    let widest = loose
        .iter()
        .map(|frame| layout.rect(*frame).width + FRAME_GAP)
        .max()
        .unwrap_or(1);
    let beside = ((right - MARGIN) / widest).max(1);
    let wide = f64::from(total) * f64::from(widest);
    let least = if right > MARGIN {
        total / beside
    } else {
        (wide * 0.7).sqrt() as i32
    };
    let (mut x, mut y, mut column, mut bottom, mut edge) = (MARGIN, top, MARGIN, top, right);
    for index in loose {
        if let Some(frame) = layout.frames.get_mut(index) {
            if y > top
                && y - top + frame.rect.height > least.max(frame.rect.height).min(most.max(least))
            {
                (x, y) = (column + FRAME_GAP, top);
            }
            (frame.rect.x, frame.rect.y) = (x, y);
            y = frame.rect.bottom() + FRAME_GAP;
            column = if y == top {
                x
            } else {
                column.max(frame.rect.right())
            };
            bottom = bottom.max(y);
            edge = edge.max(frame.rect.right());
        }
    }
    // There is a channel to the right of the last column too.
    let channel = if right > MARGIN { right + CHANNEL } else { 0 };
    layout.width = channel.max(edge + MARGIN);
    layout.height = bottom;
}
