'use strict';
// The graph of the requisites of a run: what must come before what, and how each state went.
const Graph = (() => {
const KINDS = ['require', 'watch', 'prereq', 'onchanges', 'onfail', 'listen'];
const NODES_MAX = 300, BOX = {width: 190, height: 46, gap: 16, down: 38, pad: 10}, LETTER = 6.4, LETTER_ID = 7.6;
const list = value => Array.isArray(value) ? value : [];
const isMap = value => value && typeof value === 'object' && !Array.isArray(value);

// Returns the states of high data, each with its names.
function nodesOf(high) {
  const nodes = [];
  for (const [id, body] of Object.entries(high)) {
    if (!isMap(body) || id.startsWith('__')) continue;
    for (const [word, items] of Object.entries(body)) {
      if (word.startsWith('__') || !Array.isArray(items)) continue;
      const [state, given] = word.split('.'), node = {id, state, key: state + '|' + id, sls: body.__sls__, fun: given || '', names: [id], asks: [], order: 0};
      for (const item of items) {
        if (typeof item === 'string') node.fun = item;
        else if (isMap(item)) for (const [name, value] of Object.entries(item)) {
          if (name === 'name') node.names.push(String(value));
          else if (name === 'names') node.names.push(...list(value).map(one => isMap(one) ? Object.keys(one)[0] : String(one)));
          else if (name === 'order') node.order = Number(value) || 0;
          else node.asks.push([name, value]);
        }
      }
      nodes.push(node);
    }
  }
  return nodes.sort((one, other) => one.order - other.order);
}

// Returns the states that a requisite names.
function named(nodes, one) {
  if (typeof one === 'string') return nodes.filter(node => node.id === one);
  if (!isMap(one)) return [];
  return Object.entries(one).flatMap(([state, name]) => nodes.filter(node => state === 'sls' ? node.sls === name
    : (state === 'id' || state.split('.')[0] === node.state) && node.names.includes(String(name))));
}

// Returns the graph of high data: its nodes, and the edges from each state to those that come after it.
function of(high) {
  const nodes = nodesOf(high), edges = [];
  if (!nodes.length || nodes.length > NODES_MAX) return {nodes: [], edges, count: nodes.length};
  for (const node of nodes) for (const [word, value] of node.asks) {
    const isBack = word.endsWith('_in'), kind = word.replace(/_(in|any|all)$/, '');
    if (!KINDS.includes(kind)) continue;
    for (const other of list(value).flatMap(one => named(nodes, one))) {
      // The state with `prereq` comes first.
      const isFirst = isBack !== (kind === 'prereq');
      if (other !== node) edges.push(isFirst ? {from: node, to: other, kind} : {from: other, to: node, kind});
    }
  }
  return {nodes, edges, count: nodes.length};
}

// Puts each state into a row below all that come before it. A circle ends at the number of the states.
function rows({nodes, edges}, most) {
  const depth = new Map(nodes.map(node => [node, 0]));
  for (let round = 0, moved = true; moved && round < nodes.length; round++) {
    moved = false;
    for (const {from, to} of edges) if (depth.get(to) <= depth.get(from)) { depth.set(to, depth.get(from) + 1); moved = true; }
  }
  const layers = [];
  for (const node of nodes) (layers[depth.get(node)] = layers[depth.get(node)] || []).push(node);
  const at = new Map(), all = [];
  for (const layer of layers.filter(Boolean)) {
    const wish = node => {
      const before = edges.filter(edge => edge.to === node && at.has(edge.from)).map(edge => at.get(edge.from));
      return before.length ? before.reduce((sum, x) => sum + x, 0) / before.length : .5;
    };
    const sorted = layer.map((node, place) => [wish(node), place, node]).sort((one, other) => one[0] - other[0] || one[1] - other[1]).map(one => one[2]);
    for (let first = 0; first < sorted.length; first += most) {
      const row = sorted.slice(first, first + most);
      row.forEach((node, place) => at.set(node, (place + .5) / row.length));
      all.push(row);
    }
  }
  return all;
}

const shape = (name, props, ...children) => {
  const node = document.createElementNS(document.getElementById('svg').namespaceURI, name);
  for (const [key, value] of Object.entries(props || {})) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const short = (text, width, letter) => { const most = Math.max(3, Math.floor(width / letter)); return text.length > most ? text.slice(0, most - 1) + '…' : text; };

// Returns the state that runs now, if states run one after the other: the first one without a result, after what it requires.
function next({nodes, edges}, results) {
  let node = nodes.find(one => !results.has(one.key));
  for (let left = nodes.length; node && left; left--) {
    const before = edges.find(edge => edge.to === node && !results.has(edge.from.key));
    if (!before) break;
    node = before.from;
  }
  return node;
}

// Draws a graph for a width in pixels. `results` has for the key of a state its kind and its word.
function draw(graph, results, width) {
  // At least two fit beside each other, so that the lines between rows stay apart.
  const wide = Math.min(BOX.width, (width - BOX.gap) / 2), inner = wide - 2 * BOX.pad;
  const most = Math.floor((width + BOX.gap) / (wide + BOX.gap));
  const all = rows(graph, most), places = new Map(), counts = new Map();
  const height = all.length * (BOX.height + BOX.down) - BOX.down + 4;
  all.forEach((row, y) => row.forEach((node, x) => places.set(node, {
    x: (width - row.length * (wide + BOX.gap) + BOX.gap) / 2 + x * (wide + BOX.gap), y: 2 + y * (BOX.height + BOX.down)})));
  const lines = graph.edges.map(({from, to, kind}) => {
    const one = places.get(from), other = places.get(to), done = results.get(from.key);
    const [x1, y1, x2, y2] = [one.x + wide / 2, one.y + BOX.height, other.x + wide / 2, other.y];
    const line = shape('path', {class: 'g-line g-' + kind + (done ? ' g-' + done.kind : ''), d: `M${x1} ${y1}C${x1} ${y1 + BOX.down},${x2} ${y2 - BOX.down},${x2} ${y2}`, 'marker-end': 'url(#g-tip)'});
    line.append(shape('title', {}, from.id + ' → ' + to.id + ' (' + kind + ')'));
    return line;
  });
  const boxes = graph.nodes.map(node => {
    const {x, y} = places.get(node), result = results.get(node.key) || {kind: 'wait', word: 'waits'};
    counts.set(result.word, (counts.get(result.word) || 0) + 1);
    return shape('g', {class: 'g-box g-' + result.kind},
      shape('title', {}, node.id + ': ' + node.state + '.' + node.fun + ', ' + result.word),
      shape('rect', {x, y, width: wide, height: BOX.height, rx: 7}),
      shape('text', {x: x + BOX.pad, y: y + 19, class: 'g-id'}, short(node.id, inner, LETTER_ID)),
      shape('text', {x: x + BOX.pad, y: y + 36, class: 'g-word'}, short(node.state + '.' + node.fun, inner - (result.word.length + 1) * LETTER, LETTER)),
      shape('text', {x: x + wide - BOX.pad, y: y + 36, class: 'g-word g-result'}, result.word));
  });
  const said = [...counts].map(([word, count]) => count + ' ' + word).join(', ');
  return shape('svg', {class: 'graph', role: 'img', 'aria-label': 'Requisites of ' + graph.nodes.length + ' states: ' + said, width, height, viewBox: `0 0 ${width} ${height}`},
    shape('defs', {}, shape('marker', {id: 'g-tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'}, shape('path', {d: 'M0 0L8 4L0 8z', class: 'g-tip'}))),
    ...lines, ...boxes);
}
return {of, next, draw};
})();
