(() => {
// Everything that comes from the master is put into text nodes, never into markup.
const $ = id => document.getElementById(id);
const el = (name, props, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === 'class') node.className = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
};
const ROW = 40, EVENTS_MAX = 2000, RUNS_MAX = 200, PENDING_MAX = 50, DETAILS_MAX = 64;
const state = {up: new Set(), ids: [], shown: [], details: new Map(), runs: new Map(), events: [], kept: [], paused: false, source: null, last: null};
// The functions that this page calls by itself.
const OWN = /^(runner[.])?(minion[.]|reactor[.](history|list|failed)$|jobs[.]list_jobs?$|state[.](show_sls|show_highstate|orchestrate_show_sls)$)/;
const STATES = /^(runner[.])?state[.](apply|highstate|sls|orchestrate|orch)$/;
const json = value => typeof value === 'string' ? value : JSON.stringify(value, null, 2);
const ago = stamp => {
  if (!stamp) return '';
  const at = new Date(/Z|[+]/.test(stamp) ? stamp : stamp + 'Z'), seconds = (Date.now() - at) / 1000;
  if (isNaN(seconds)) return stamp;
  if (seconds < 60) return 'just now';
  for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
    const count = Math.floor(seconds / size);
    if (count) return count + ' ' + unit + (count > 1 ? 's' : '') + ' ago';
  }
};
const clock = stamp => {
  const at = new Date(/Z|[+]/.test(stamp || '') ? stamp : stamp + 'Z');
  return isNaN(at) ? '' : at.toLocaleTimeString([], {hour12: false});
};
const jidTime = jid => /^\d{20}/.test(jid) ? jid.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3}).*/, '$1-$2-$3T$4:$5:$6.$7Z') : '';
const tag = (kind, text) => el('span', {class: 'tag ' + kind}, text);
const notice = text => { $('notice').textContent = text || ''; $('notice').hidden = !text; };

async function ask(path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST', credentials: 'same-origin', cache: 'no-store',
      headers: {'Content-Type': 'application/json', Accept: 'application/json'},
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) { throw new Error('The master does not answer.'); }
  let data = {};
  try { data = await answer.json(); } catch (error) { /* The status is enough. */ }
  if (!answer.ok) {
    const text = new Error(typeof data.return === 'string' ? data.return : 'The master answers with the status ' + answer.status + '.');
    text.status = answer.status;
    if (answer.status === 401 && /No permission/.test(text.message) && path !== '/login') signedOut();
    throw text;
  }
  return data.return === undefined ? data : data.return;
}
const call = chunks => ask('/', chunks);
const runner = (fun, kwarg) => ({client: 'runner', fun, kwarg: kwarg || {}});
const wheel = (fun, kwarg) => ({client: 'wheel', fun, kwarg: kwarg || {}});
const ofWheel = answer => (answer && answer.data && answer.data.return) || {};
const guarded = work => (...args) => Promise.resolve(work(...args)).then(() => {}, error => notice(error.message));

// The rows of a long list: only those that can be seen exist.
class View {
  constructor(root, draw, choose, label) {
    Object.assign(this, {root, draw, choose, label, items: [], at: -1, pad: root.firstElementChild, rows: root.firstElementChild.firstElementChild});
    root.addEventListener('scroll', () => this.paint());
    root.addEventListener('keydown', event => this.key(event));
    root.addEventListener('click', event => {
      const row = event.target.closest('.row');
      if (row) this.select(Number(row.dataset.at));
    });
    new ResizeObserver(() => this.paint()).observe(root);
  }
  set(items, keep) {
    const chosen = keep && this.items[this.at];
    this.items = items;
    this.at = chosen === undefined ? -1 : items.indexOf(chosen);
    this.pad.style.height = items.length * ROW + 'px';
    this.paint();
  }
  paint() {
    const first = Math.max(0, Math.floor(this.root.scrollTop / ROW) - 4);
    const last = Math.min(this.items.length, first + Math.ceil(this.root.clientHeight / ROW) + 8);
    this.rows.style.top = first * ROW + 'px';
    this.range = [first, last];
    this.rows.replaceChildren(...this.items.slice(first, last).map((item, offset) => {
      const at = first + offset;
      return el('div', {class: 'row', role: 'option', id: this.root.id + '-' + at, 'data-at': at, 'aria-selected': at === this.at,
        'aria-posinset': at + 1, 'aria-setsize': this.items.length}, ...this.draw(item));
    }));
    if (this.at >= first && this.at < last) this.root.setAttribute('aria-activedescendant', this.root.id + '-' + this.at);
    else this.root.removeAttribute('aria-activedescendant');
    if (this.seen) this.seen(this.items.slice(first, last));
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / ROW) - 1);
    const to = {ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page, Home: 0, End: this.items.length - 1}[event.key];
    if (to === undefined || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    this.select(Math.min(Math.max(to, 0), this.items.length - 1));
  }
  select(at) {
    if (!this.items.length) return;
    this.at = at;
    const top = at * ROW, height = this.root.clientHeight;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    if (top + ROW > this.root.scrollTop + height) this.root.scrollTop = top + ROW - height;
    this.paint();
    this.choose(this.items[at]);
  }
}

// Fleet.
const fleet = new View($('v-fleet'), id => {
  const more = state.details.get(id), up = state.up.has(id), high = more && more.last_highstate;
  return [
    el('span', {}, id),
    el('span', {}, up ? tag('good', 'connected') : tag('bad', 'not connected')),
    el('span', {}, (more && more.version) || ''),
    el('span', {}, (more && more.os) || ''),
    el('span', {}, high ? tag(high.result ? 'good' : 'bad', high.result ? 'succeeded' : high.failed + ' failed') : '', high ? ' ' + ago(high.time) : ''),
  ];
}, id => showMinion(id));
let wanted = 0;
fleet.seen = ids => {
  clearTimeout(wanted);
  wanted = setTimeout(guarded(async () => {
    const missing = ids.filter(id => !state.details.has(id)).slice(0, DETAILS_MAX);
    if (!missing.length || $('s-fleet').hidden) return;
    missing.forEach(id => state.details.set(id, null));
    const [found] = await call([runner('minion.overview', {ids: missing})]);
    if (found && typeof found === 'object') for (const [id, one] of Object.entries(found)) state.details.set(id, one);
    fleet.paint();
  }), 60);
};
function filterFleet() {
  const find = $('fleet-find').value.trim().toLowerCase(), show = $('fleet-show').value;
  state.shown = state.ids.filter(id => id.toLowerCase().includes(find) && (show === 'all' || state.up.has(id) === (show === 'up')));
  fleet.set(state.shown, true);
}
function figures(keys) {
  const figure = (kind, count, text) => el('span', {class: kind}, el('b', {}, String(count)), ' ' + text);
  const up = state.ids.filter(id => state.up.has(id)).length, down = state.ids.length - up;
  $('figures').replaceChildren(figure('', state.ids.length, state.ids.length === 1 ? 'minion' : 'minions'), figure('good', up, 'connected'),
    figure(down ? 'bad' : 'dim', down, 'not connected'), figure((keys.minions_pre || []).length ? 'warn' : 'dim', (keys.minions_pre || []).length, 'pending'));
}
async function loadFleet() {
  const [listed, connected] = await call([wheel('key.list_all'), wheel('minions.connected')]);
  const keys = ofWheel(listed), up = ofWheel(connected);
  state.ids = keys.minions || [];
  state.up = new Set(Array.isArray(up) ? up : []);
  state.details.clear();
  figures(keys);
  filterFleet();
  await showPending(keys.minions_pre || []);
}
async function showPending(ids) {
  $('pending').hidden = !ids.length;
  $('n-pending').hidden = !ids.length;
  $('n-pending').textContent = ids.length || '';
  $('more-pending').hidden = ids.length <= PENDING_MAX;
  $('more-pending').textContent = 'and ' + (ids.length - PENDING_MAX) + ' more';
  const first = ids.slice(0, PENDING_MAX);
  const fingers = {};
  if (first.length) for (const answer of await call(first.map(id => wheel('key.finger', {match: id})))) Object.assign(fingers, ofWheel(answer).minions_pre);
  const decide = (id, fun, text) => el('button', {type: 'button', class: fun === 'key.accept' ? 'main' : '', 'aria-label': text + ' the key of ' + id, onclick: guarded(async event => {
    event.target.disabled = true;
    try { await call([wheel(fun, {match: id})]); } finally { await loadFleet(); }
  })}, text);
  $('l-pending').replaceChildren(...first.map(id => el('li', {}, el('b', {}, id), el('code', {}, fingers[id] || ''), decide(id, 'key.accept', 'Accept'), decide(id, 'key.reject', 'Reject'))));
}
const when = stamp => ago(stamp) + ' (' + new Date(stamp).toLocaleString([], {hour12: false}) + ')';
const shown = value => value === true ? 'yes' : value === false ? 'no' : /^\d{4}-\d\d-\d\dT/.test(value) ? when(value) : json(value);
const isEmpty = value => value === null || value === undefined || value === '' || Array.isArray(value) && !value.length;
const pairs = map => el('dl', {}, ...Object.entries(map).flatMap(([key, value]) => isEmpty(value) ? [] :
  [el('dt', {}, key.replace(/_/g, ' ')), el('dd', {}, shown(value))]));
const showMinion = guarded(async id => {
  const box = $('minion');
  box.hidden = false;
  box.replaceChildren(el('h3', {}, id), el('p', {class: 'dim'}, 'Loading…'));
  const [found] = await call([runner('minion.show', {id})]);
  if (typeof found !== 'object') return box.replaceChildren(el('h3', {}, id), el('p', {class: 'bad'}, found));
  const target = el('button', {type: 'button', onclick: () => { form.tgt.value = id; form.tgt_type.value = 'glob'; location.hash = 'run'; }}, 'Run something here');
  const {id: _, ...rest} = found;
  box.replaceChildren(el('h3', {}, id), pairs(rest), el('p', {class: 'actions'}, target));
});

// Runs.
// Returns the words of a call: its positional arguments, and true if it is a test.
function words(args) {
  const all = Array.isArray(args) ? args : [], kwargs = Object.assign({}, ...all.filter(one => one && one.__kwarg__));
  const plain = all.filter(one => typeof one !== 'object' || one === null || Array.isArray(one)).map(json);
  if (!plain.length && kwargs.mods) plain.push(json(kwargs.mods));
  return {text: plain.join(' '), mods: plain[0] || '', test: kwargs.test === true, saltenv: kwargs.saltenv};
}
const newRun = (jid, kind, fun, more) => ({jid, kind, fun: json(fun).replace(/^runner[.]/, ''), minions: null, returns: {}, steps: {}, done: false, failed: 0, args: words([]), ...more});
function noteRun(tagName, data) {
  const parts = tagName.split('/'), jid = parts[2], what = parts[3];
  if (!/^\d{20}/.test(jid || '') || (parts[1] !== 'job' && parts[1] !== 'run')) return;
  let one = state.runs.get(jid);
  if (!one) {
    if (what !== 'new' || OWN.test(json(data.fun || ''))) return;
    one = newRun(jid, parts[1], data.fun, {user: data.user, tgt: data.tgt, minions: data.minions || null, args: words(data.arg || data.fun_args)});
    state.runs.set(jid, one);
    if (state.runs.size > RUNS_MAX) state.runs.delete(state.runs.keys().next().value);
  }
  if (what === 'ret') {
    const good = data.success !== false && !data.retcode;
    if (parts[1] === 'job') {
      one.returns[data.id || parts[4]] = {good, ret: data.return};
      one.done = !!one.minions && one.minions.every(id => id in one.returns);
    } else {
      one.returns[''] = {good, ret: data.return};
      one.done = true;
    }
    one.failed = Object.values(one.returns).filter(ret => !ret.good).length;
  } else if (what === 'prog') {
    const inner = data.data || data, ret = inner.ret || {}, on = parts[4] || '';
    const steps = one.steps[on] = one.steps[on] || {all: 0, rets: {}};
    steps.all = Number(inner.len) || steps.all;
    steps.rets[ret.__run_num__ || 0] = ret;
  } else if (what === 'args') one.now = data.name;
  drawRuns();
}
const progress = one => {
  const of = one.minions ? one.minions.length : 1, have = Object.keys(one.returns).length;
  if (one.failed) return tag('bad', one.failed + ' failed');
  if (one.done) return tag('good', one.args.test ? 'tested' : 'done');
  return tag('warn', one.kind === 'job' ? have + ' of ' + of : 'running');
};
let runsDrawn = 0;
function drawRuns() {
  const running = [...state.runs.values()].filter(one => !one.done && one.live !== false).length;
  $('n-running').hidden = !running;
  $('n-running').textContent = running || '';
  if ($('s-runs').hidden || runsDrawn) return;
  runsDrawn = setTimeout(() => {
    runsDrawn = 0;
    const all = [...state.runs.values()].sort((a, b) => a.jid < b.jid ? 1 : -1).slice(0, RUNS_MAX), focused = document.activeElement && document.activeElement.id;
    $('l-runs').replaceChildren(...all.map(one => el('li', {}, el('button', {type: 'button', id: 'run-' + one.jid, 'aria-current': one.jid === state.run, onclick: () => showRun(one.jid, true)},
      el('b', {}, one.fun + ' ' + one.args.text), one.live === false ? tag('', 'earlier') : progress(one),
      el('span', {class: 'dim'}, [json(one.tgt || ''), one.user].filter(Boolean).join(' · ')), el('span', {class: 'dim'}, ago(jidTime(one.jid)))))));
    if (/^run-/.test(focused)) { const again = $(focused); if (again) again.focus({preventScroll: true}); }
    if (state.run) showRun(state.run);
  }, 100);
}
const RANK = ['skip', 'good', 'warn', 'bad'];
// Returns the kind and the word for the return of a state.
const outcome = ret => {
  const changed = ret.changes && Object.keys(ret.changes).length;
  if (ret.__state_ran__ === false) return ret.result === false ? {kind: 'bad', word: 'not run'} : {kind: 'skip', word: 'not needed'};
  if (ret.result === false) return {kind: 'bad', word: 'failed'};
  if (ret.result === null) return {kind: 'warn', word: 'would change'};
  return {kind: 'good', word: changed ? 'changed' : 'unchanged'};
};
const step = (ret, name) => {
  const {kind, word} = outcome(ret), changed = ret.changes && Object.keys(ret.changes).length;
  return el('li', {class: 's-' + kind}, el('b', {}, ret.__id__ || name), ' ', tag(kind, word), el('div', {class: 'dim'}, json(ret.comment || '')),
    changed ? el('details', {}, el('summary', {}, 'Changes'), el('pre', {}, json(ret.changes))) : null);
};
const isStates = ret => ret && typeof ret === 'object' && !Array.isArray(ret) && Object.keys(ret).length && Object.keys(ret).every(key => key.includes('_|-'));
const inside = ret => ret && ret.data && ret.outputter ? Object.values(ret.data)[0] : ret;
const returned = ret => {
  const inner = inside(ret);
  if (!isStates(inner)) return el('pre', {}, json(ret));
  const all = Object.entries(inner).sort((a, b) => (a[1].__run_num__ || 0) - (b[1].__run_num__ || 0));
  return el('ol', {class: 'steps'}, ...all.map(([key, one]) => step(one, key.split('_|-')[1])));
};
const byMinion = returns => Object.entries(returns).map(([id, one]) => el('details', Object.keys(returns).length < 4 ? {open: ''} : {},
  el('summary', {}, el('b', {}, id || 'Result'), ' ', tag(one.good ? 'good' : 'bad', one.good ? 'succeeded' : 'failed')), returned(one.ret)));

// Returns the results of a run's states so far, by the keys of the graph: the worst of all minions.
function results(one) {
  const found = new Map();
  const add = (key, result) => { const known = found.get(key); if (!known || RANK.indexOf(known.kind) < RANK.indexOf(result.kind)) found.set(key, result); };
  for (const {rets} of Object.values(one.steps)) for (const ret of Object.values(rets)) {
    const same = one.graph.nodes.filter(node => node.id === ret.__id__);
    const node = same.find(node => !found.has(node.key)) || same[0];
    if (node) add(node.key, outcome(ret));
  }
  for (const {ret} of Object.values(one.returns)) {
    const inner = inside(ret);
    if (isStates(inner)) for (const [key, each] of Object.entries(inner)) add(key.split('_|-').slice(0, 2).join('|'), outcome(each));
  }
  const isAlone = !one.done && Object.keys(one.steps).length === 1 && (one.minions || []).length === 1 && Graph.next(one.graph, found);
  if (isAlone) found.set(isAlone.key, {kind: 'run', word: 'running'});
  if (!one.done && one.now) for (const node of one.graph.nodes) if (node.names.includes(one.now) && !found.has(node.key)) found.set(node.key, {kind: 'run', word: 'running'});
  return found;
}
// Asks for the states of a run, once. A user without the right sees the run without its graph.
async function loadGraph(one) {
  one.graph = null;
  if (!STATES.test(one.fun) || one.kind === 'job' && !(one.minions || []).length) return;
  const isOrch = one.kind === 'run', {mods, saltenv} = one.args, kwarg = saltenv ? {saltenv} : {};
  if (isOrch && !mods) return;
  const chunk = isOrch ? {client: 'runner', fun: 'state.orchestrate_show_sls', arg: [mods], kwarg}
    : {client: 'local', tgt: one.minions[0], fun: mods ? 'state.show_sls' : 'state.show_highstate', arg: mods ? [mods] : [], kwarg};
  try {
    const [found] = await call([chunk]);
    const high = found && Object.values(found)[0], graph = high && typeof high === 'object' && !Array.isArray(high) ? Graph.of(high) : null;
    if (graph && graph.edges.length) one.graph = graph;
    else if (graph && graph.count > graph.nodes.length) one.why = 'The graph of ' + graph.count + ' states is too large to be drawn.';
  } catch (error) { one.why = 'There is no graph: ' + error.message; }
  if (state.run === one.jid) drawRuns();
}
const live = one => Object.entries(one.steps).filter(([on]) => !(on in one.returns)).map(([on, {all, rets}]) => {
  const done = Object.values(rets), last = done[done.length - 1], text = done.length + ' of ' + all + ' steps';
  return el('div', {class: 'live'}, el('b', {}, on), ' ', text, el('progress', {max: all || 1, value: done.length, 'aria-label': on + ': ' + text}),
    el('p', {class: 'dim'}, last ? 'Last: ' + (last.__id__ || last.name) + ', ' + outcome(last).word : ''));
});
function showRun(jid, focus) {
  const one = state.runs.get(jid), box = $('run');
  if (!one) return;
  const isNew = state.run !== jid;
  state.run = jid;
  if (isNew) drawRuns();
  if (one.live === false && !one.loaded) { loadRun(one, focus); return; }
  if (one.graph === undefined) loadGraph(one);
  const of = one.minions ? one.minions.length : 1, have = Object.keys(one.returns).length;
  const silent = (one.minions || []).filter(id => !(id in one.returns));
  const open = new Map([...box.querySelectorAll('details')].map((node, at) => [at + (node.querySelector('b') || node).textContent, node.open]));
  box.hidden = false;
  box.replaceChildren(el('h3', {}, one.fun + ' ' + one.args.text, ' ', one.args.test ? tag('warn', 'test') : ''), el('p', {class: 'dim'}, [jid, one.user, ago(jidTime(jid))].filter(Boolean).join(' · ')),
    one.done || one.live === false || of === 1 && Object.keys(one.steps).length ? '' : el('progress', {max: of, value: have, 'aria-label': have + ' of ' + of + ' have returned'}), ...live(one),
    one.graph ? Graph.draw(one.graph, results(one), Math.max(220, box.clientWidth - 40)) : '', one.why ? el('p', {class: 'dim'}, one.why) : '',
    ...byMinion(one.returns), silent.length && (one.done || one.live === false) ? el('p', {class: 'dim'}, 'No return: ' + silent.slice(0, 50).join(', ') + (silent.length > 50 ? ' and ' + (silent.length - 50) + ' more' : '')) : '');
  if (!isNew) [...box.querySelectorAll('details')].forEach((node, at) => { const was = open.get(at + (node.querySelector('b') || node).textContent); if (was !== undefined) node.open = was; });
  if (focus) { box.focus({preventScroll: true}); box.scrollIntoView({block: 'nearest'}); }
}
const loadRun = guarded(async (one, focus) => {
  const [found] = await call([runner('jobs.list_job', {jid: one.jid})]);
  one.loaded = true;
  one.minions = found.Minions || [];
  for (const [id, ret] of Object.entries(found.Result || {})) one.returns[id] = {good: ret.success !== false && !ret.retcode, ret: ret.return};
  showRun(one.jid, focus);
});
async function loadRuns() {
  const [jobs] = await call([runner('jobs.list_jobs')]);
  if (typeof jobs !== 'object') throw new Error(jobs);
  for (const [jid, job] of Object.entries(jobs).slice(-RUNS_MAX)) {
    if (state.runs.has(jid) || OWN.test(json(job.Function))) continue;
    state.runs.set(jid, newRun(jid, 'job', job.Function, {user: job.User, tgt: job.Target, args: words(job.Arguments), done: true, live: false}));
  }
  drawRuns();
}

// Events.
const events = new View($('v-events'), one => [el('span', {class: 'dim'}, clock(one.data._stamp)), el('span', {}, one.tag), el('span', {class: 'dim mono'}, one.text.slice(0, 200))],
  one => { $('event').hidden = false; $('event').textContent = one.tag + '\n' + json(one.data); });
const glob = text => new RegExp('^' + text.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.') + '$', 's');
const matching = () => {
  const find = $('event-find').value.trim(), pattern = /[*?]/.test(find) ? glob(find) : null;
  return one => !find || (pattern ? pattern.test(one.tag) : one.tag.includes(find) || one.text.includes(find));
};
let painted = 0;
function paintEvents() {
  if (painted || $('s-events').hidden) return;
  painted = requestAnimationFrame(() => {
    painted = 0;
    const of = state.paused ? state.kept : state.events, shown = of.filter(matching());
    events.set(shown.reverse(), true);
    $('event-state').textContent = (state.paused ? 'Paused: ' + (state.events.length - state.kept.length) + ' new. ' : '') + shown.length + ' of ' + of.length + ' events';
  });
}
function gotEvent(message) {
  const {tag: name, data} = JSON.parse(message.data);
  state.events.push({tag: name, data, text: JSON.stringify(data)});
  if (state.events.length > EVENTS_MAX) state.events.splice(0, state.events.length - EVENTS_MAX);
  noteRun(name, data);
  if (/^(salt\/(auth|key|presence|minion)|minion\/refresh)/.test(name) && !$('s-fleet').hidden) soonFleet();
  paintEvents();
}
let fleetSoon = 0;
const soonFleet = () => { fleetSoon = fleetSoon || setTimeout(() => { fleetSoon = 0; guarded(loadFleet)(); }, 1000); };
function listen() {
  if (state.source) return;
  state.source = new EventSource('/events');
  state.source.onmessage = gotEvent;
  state.source.onopen = () => { $('link').textContent = ''; };
  state.source.onerror = () => { $('link').textContent = 'Not connected'; if (state.source.readyState === 2) { state.source = null; setTimeout(() => $('who').hidden || listen(), 3000); } };
}

// Reactor.
const STATE = {done: 'good', failed: 'bad', unknown: 'warn', stopped: 'warn'};
const effect = one => [one.type, one.fun, one.state && one.state !== 'done' ? '(' + one.state + ')' : '', one.comment].filter(Boolean).join(' ');
const reaction = one => {
  const reasons = one.errors || [], effects = (one.chunks || []).map(effect).filter(Boolean);
  return el('li', {class: 's-' + (STATE[one.state] || 'skip')}, el('p', {}, el('b', {}, one.tag || one.rule || ''), ' ', tag(STATE[one.state] || '', one.state || ''), ' ', el('span', {class: 'dim'}, [(one.time || '').replace(/[.]\d+$/, ''), 'event ' + one.sequence].filter(Boolean).join(' · '))),
    one.rule && one.rule !== one.tag ? el('p', {class: 'dim'}, 'Rule: ' + one.rule) : null, effects.length ? el('p', {}, effects.join(', ')) : null,
    ...reasons.map(reason => el('pre', {class: 'reason'}, reason)), el('details', {}, el('summary', {}, 'All of it'), el('pre', {}, json(one))));
};
const rule = one => {
  const {'': _, ...known} = one, simple = Object.entries(known).filter(([, files]) => Array.isArray(files));
  return simple.length === Object.keys(known).length ? el('li', {}, ...simple.map(([pattern, files]) => el('p', {class: 'rule'}, el('code', {}, pattern), ' → ', el('code', {}, files.map(json).join(', '))))) : el('li', {}, el('pre', {}, json(one)));
};
async function loadReactor() {
  const [reactions, rules, failed] = await call([runner('reactor.' + $('reactor-show').value), runner('reactor.list'), runner('reactor.failed')]);
  const list = value => Array.isArray(value) ? value : [];
  $('n-failed').hidden = !list(failed).length;
  $('n-failed').textContent = list(failed).length || '';
  $('l-reactor').replaceChildren(...list(reactions).map(reaction));
  $('l-rules').replaceChildren(...list(rules).map(rule));
}

// The form.
const form = $('f-run');
function shapeForm() {
  const client = form.client.value;
  $('p-target').hidden = client !== 'local';
  $('t-fun').textContent = {local: 'Function', orch: 'Orchestration', runner: 'Runner'}[client];
  form.fun.placeholder = {local: 'state.apply', orch: 'orch.deploy', runner: 'manage.up'}[client];
  const tests = canTest();
  $('p-test').hidden = !tests;
  $('b-run').textContent = tests && form.test.checked ? 'Test' : 'Run';
}
const canTest = () => form.client.value === 'orch' || form.client.value === 'local' && /^state\.(apply|highstate|sls|single|high|template|sls_id)\b/.test(form.fun.value.trim() || 'state.apply');
function chunk(test) {
  const client = form.client.value, fun = form.fun.value.trim();
  const arg = form.args.value.split('\n').map(line => line.trim()).filter(Boolean);
  const kwarg = test ? {test: true} : {};
  if (client === 'local' && (STATES.test(fun))) kwarg.state_events = true;
  if (client === 'local') return {client: 'local', tgt: form.tgt.value, tgt_type: form.tgt_type.value, fun, arg, kwarg, full_return: true};
  if (client === 'orch') return {client: 'runner', fun: 'state.orchestrate', arg: [fun, ...arg], kwarg, full_return: true};
  return {client: 'runner', fun, arg, full_return: true};
}
const run = guarded(async test => {
  notice('');
  const low = chunk(test), out = $('run-result');
  $('b-run').disabled = true;
  $('run-state').textContent = 'Running…';
  out.replaceChildren();
  try {
    const [answer] = await call([low]);
    const returns = {};
    if (low.client === 'runner') returns[''] = {good: answer.data.success, ret: answer.data.return};
    else for (const [id, one] of Object.entries(answer)) returns[id] = one === false ? {good: false, ret: 'The minion has not returned.'} : {good: !one.retcode, ret: one.ret};
    const failed = Object.values(returns).filter(one => !one.good).length, count = Object.keys(returns).length;
    $('run-state').textContent = !count ? 'No minion matches the target.' : failed ? failed + ' of ' + count + ' failed' : test ? 'Tested: nothing was changed.' : 'Done.';
    const again = test && count && !failed ? el('p', {class: 'actions'}, el('button', {type: 'button', class: 'main', id: 'b-apply', onclick: () => run(false)}, 'Run it and make the changes')) : '';
    out.replaceChildren(el('div', {class: 'card'}, ...byMinion(returns), again));
    if (again) $('b-apply').focus();
  } catch (error) {
    $('run-state').textContent = '';
    throw error;
  } finally { $('b-run').disabled = false; }
});
form.addEventListener('input', shapeForm);
form.addEventListener('submit', event => { event.preventDefault(); run(canTest() && form.test.checked); });

// Parts of the page.
const PARTS = {fleet: loadFleet, run: null, runs: loadRuns, events: null, reactor: loadReactor};
function show() {
  const part = location.hash.slice(1) in PARTS ? location.hash.slice(1) : 'fleet';
  for (const name of ['login', ...Object.keys(PARTS)]) $('s-' + name).hidden = name !== part;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === '#' + part) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = 'Pinch: ' + part;
  notice('');
  if (PARTS[part]) guarded(PARTS[part])();
  if (part === 'events') paintEvents();
  if (part === 'runs') drawRuns();
  if (part === 'run') shapeForm();
}
function signedIn(name) {
  document.querySelector('nav').hidden = $('who').hidden = false;
  $('name').textContent = name || '';
  listen();
  show();
}
function signedOut() {
  if (state.source) state.source.close();
  state.source = null;
  document.querySelector('nav').hidden = $('who').hidden = true;
  for (const name of Object.keys(PARTS)) $('s-' + name).hidden = true;
  $('s-login').hidden = false;
  $('f-login').username.focus();
}
$('f-login').addEventListener('submit', guarded(async event => {
  event.preventDefault();
  const form = event.target;
  notice('');
  try {
    const [login] = await ask('/login', {username: form.username.value, password: form.password.value, eauth: form.eauth.value});
    localStorage.setItem('pinch-eauth', form.eauth.value);
    localStorage.setItem('pinch-user', login.user);
    signedIn(login.user);
  } finally { form.password.value = ''; }
}));
$('logout').addEventListener('click', guarded(async () => { try { await ask('/logout', {}); } finally { signedOut(); } }));
$('fleet-load').addEventListener('click', guarded(loadFleet));
$('fleet-find').addEventListener('input', filterFleet);
$('fleet-show').addEventListener('change', filterFleet);
$('runs-load').addEventListener('click', guarded(loadRuns));
$('reactor-load').addEventListener('click', guarded(loadReactor));
$('reactor-show').addEventListener('change', guarded(loadReactor));
$('event-find').addEventListener('input', paintEvents);
$('event-clear').addEventListener('click', () => { state.events = []; state.kept = []; $('event').hidden = true; paintEvents(); });
$('event-pause').addEventListener('click', () => {
  state.paused = !state.paused;
  state.kept = state.paused ? state.events.slice() : [];
  $('event-pause').setAttribute('aria-pressed', state.paused);
  paintEvents();
});
window.addEventListener('resize', drawRuns);
window.addEventListener('hashchange', () => { if ($('who').hidden) return; show(); $('main').focus(); });
const eauth = localStorage.getItem('pinch-eauth');
if (eauth) $('f-login').eauth.value = eauth;
call([]).then(() => signedIn(localStorage.getItem('pinch-user')), () => signedOut());
})();
