// page.mjs CHROMIUM URL FOLDER: drives the master's page as a person with a keyboard does, and writes screenshots to FOLDER.
// It prints one line for each step, and fails at the first thing that is not as expected. The test is in tests/e2e/fleet/page.rs.
import {spawn} from 'node:child_process';
import {writeFileSync} from 'node:fs';

const [chromium, url, folder] = process.argv.slice(2);
const browser = spawn(chromium, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
  '--user-data-dir=' + folder + '/profile', '--remote-debugging-pipe', 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
const waiting = new Map(), wrong = [];
let number = 0, session, rest = '';
browser.stdio[4].on('data', data => {
  const parts = (rest + data).split('\0');
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id) {
      const {done, fail} = waiting.get(message.id);
      message.error ? fail(new Error(JSON.stringify(message.error))) : done(message.result);
    } else if (message.method === 'Runtime.exceptionThrown') wrong.push(JSON.stringify(message.params.exceptionDetails));
    else if (message.method === 'Log.entryAdded' && message.params.entry.level === 'error' && !/401/.test(message.params.entry.text)) wrong.push(message.params.entry.text);
  }
});
const send = (method, params = {}) => new Promise((done, fail) => {
  waiting.set(++number, {done, fail});
  browser.stdio[3].write(JSON.stringify({id: number, method, params, sessionId: session}) + '\0');
});
const pause = time => new Promise(done => setTimeout(done, time));
const run = async expression => {
  const {result, exceptionDetails} = await send('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true});
  if (exceptionDetails) throw new Error(expression + ': ' + JSON.stringify(exceptionDetails));
  return result.value;
};
const until = async (what, expression) => {
  for (let tries = 0; tries < 300; tries++) {
    if (await run(expression)) return console.log('ok ' + what);
    await pause(100);
  }
  await shot('failed', 1440, 'light');
  throw new Error(what + ': ' + await run('document.body.innerText') + wrong.join('\n'));
};
const text = part => `document.querySelector('${part}').innerText`;
const has = (part, word) => `${text(part)}.includes(${JSON.stringify(word)})`;
const KEYS = {Enter: 13, Tab: 9, ArrowDown: 40, End: 35, Home: 36, ' ': 32};
const key = async (name, modifiers = 0) => {
  const of = {key: name, code: name, windowsVirtualKeyCode: KEYS[name], modifiers, text: name === 'Enter' ? '\r' : name === ' ' ? ' ' : undefined};
  await send('Input.dispatchKeyEvent', {type: 'keyDown', ...of});
  await send('Input.dispatchKeyEvent', {type: 'keyUp', ...of, text: undefined});
};
const type = words => send('Input.insertText', {text: words});
const focus = part => run(`document.querySelector('${part}').focus()`);
const fill = async (part, words) => { await run(`(() => { const e = document.querySelector('${part}'); e.focus(); e.select && e.select(); })()`); await type(words); };
// Presses Tab until an element with this accessible text has the focus.
const tabTo = async words => {
  for (let tries = 0; tries < 80; tries++) {
    await key('Tab');
    if (await run(`(document.activeElement.ariaLabel || document.activeElement.innerText || '').trim().startsWith(${JSON.stringify(words)})`)) return;
  }
  throw new Error('no way by keyboard to ' + words);
};
const shot = async (name, width, scheme) => {
  await send('Emulation.setDeviceMetricsOverride', {width, height: width > 500 ? 900 : 844, deviceScaleFactor: 1, mobile: false});
  await send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: scheme}]});
  await pause(250);
  const {data} = await send('Page.captureScreenshot', {format: 'png'});
  writeFileSync(`${folder}/${name}-${width}-${scheme}.png`, Buffer.from(data, 'base64'));
  const wide = await run('document.documentElement.scrollWidth > innerWidth');
  if (wide) throw new Error(`${name}: the page is wider than ${width} pixels`);
};
const shots = async name => {
  for (const [width, scheme] of [[390, 'light'], [800, 'dark'], [1440, 'dark'], [1440, 'light']]) await shot(name, width, scheme);
};
// Each control has a name for screen readers.
const named = async () => {
  const {nodes} = await send('Accessibility.getFullAXTree');
  const roles = ['button', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'link', 'listbox', 'option', 'progressbar'];
  for (const node of nodes) if (!node.ignored && roles.includes(node.role?.value) && !node.name?.value) throw new Error('a control without a name: ' + JSON.stringify(node).slice(0, 400));
};

async function main() {
  const {targetId} = await send('Target.createTarget', {url: 'about:blank'});
  ({sessionId: session} = await send('Target.attachToTarget', {targetId, flatten: true}));
  for (const domain of ['Page', 'Runtime', 'Log', 'Accessibility']) await send(domain + '.enable');
  await send('Page.navigate', {url});
  await until('the form of the login', `document.readyState === 'complete' && !document.querySelector('#s-login').hidden`);
  await named();
  await shots('login');
  await fill('[name=username]', 'alice');
  await fill('[name=password]', 'wrong');
  await fill('[name=eauth]', 'file');
  await key('Enter');
  await until('a wrong password is refused', has('#notice', 'Could not authenticate'));
  await fill('[name=password]', 'secret-a');
  await key('Enter');
  await until('a pending key', has('#l-pending', 'm1'));
  await shots('pending');
  await named();
  await tabTo('Accept the key of m1');
  await key('Enter');
  await until('the minion is connected', `[...document.querySelectorAll('#v-fleet .row')].some(row => /^m1\\s+connected/.test(row.innerText))`);
  await focus('#v-fleet');
  await key('ArrowDown');
  await until('the minion is shown', has('#minion', 'fingerprint'));
  await tabTo('Run');
  await run(`location.hash = 'run'`);
  await until('the form', `!document.querySelector('#s-run').hidden`);
  await fill('[name=fun]', 'state.apply');
  await fill('[name=args]', 'site');
  await named();
  await tabTo('Test');
  await key('Enter');
  await until('the changes of the test', has('#run-result', 'would change'));
  await shots('test');
  await until('the next step has the focus', `document.activeElement.id === 'b-apply'`);
  await key('Enter');
  await until('the changes', has('#run-result', 'changed') + ' && ' + has('#run-state', 'Done'));
  await run(`location.hash = 'runs'`);
  await until('the runs', has('#l-runs', 'state.apply'));
  await run(`document.querySelector('#l-runs button').focus()`);
  await key('Enter');
  await until('the steps of a run', has('#run', 'm1'));
  // A run with requisites: its steps arrive one by one, and its graph has their colours.
  await run(`location.hash = 'run'`);
  await fill('[name=args]', 'shop');
  await run(`document.querySelector('[name=test]').click()`);
  await focus('#b-run');
  await key('Enter');
  await run(`location.hash = 'runs'`);
  await until('the run is in the list', `document.querySelector('#l-runs li').innerText.includes('shop')`);
  await run(`document.querySelector('#l-runs button').focus()`);
  await key('Enter');
  await until('the graph of a run that has not ended', `document.querySelectorAll('#run .g-wait').length > 0 && document.querySelectorAll('#run .g-good').length > 0`);
  await until('the progress of its steps', `/[1-9] of 9 steps/.test(${text('#run')})`);
  await shot('live', 1440, 'light');
  await until('a failed state in the graph', `document.querySelector('#run .g-bad .g-id')?.textContent === 'migrate' && document.querySelectorAll('#run .g-wait').length === 0`);
  await until('what the graph says to a screen reader', `/9 states: .*1 failed/.test(document.querySelector('#run .graph').getAttribute('aria-label'))`);
  await shots('runs');
  await named();
  await run(`location.hash = 'events'`);
  await until('the events', has('#v-events', 'salt/job/'));
  await fill('#event-find', 'salt/key');
  await until('the filter', has('#v-events', 'salt/key') + ' && !' + has('#v-events', 'salt/job/'));
  await run(`document.querySelector('#event-pause').focus()`);
  await key('Enter');
  await until('a pause', has('#event-state', 'Paused'));
  await focus('#v-events');
  await key('ArrowDown');
  await until('an event', has('#event', '"id": "m1"'));
  await shots('events');
  await named();
  await run(`location.hash = 'reactor'`);
  await until('a failed reaction', has('#l-reactor', 'failed'));
  await shots('reactor');
  await named();
  // Many minions have few rows.
  await run(`location.hash = 'fleet'`);
  await until('the fleet again', has('#v-fleet', 'm1'));
  await shots('fleet');
  await run(`(() => {
    const real = window.fetch, many = Array.from({length: 10000}, (_, n) => 'minion-' + n);
    window.fetch = (path, options) => !options.body || !options.body.includes('key.list_all') ? real(path, options) : Promise.resolve(new Response(JSON.stringify(
      {return: [{data: {return: {minions: many, minions_pre: []}}}, {data: {return: many.slice(0, 9000)}}]})));
    document.querySelector('#fleet-load').click();
  })()`);
  await until('10,000 minions', has('#figures', '10000') + ' && ' + has('#v-fleet', 'minion-3'));
  const rows = await run(`document.querySelectorAll('#v-fleet .row').length`);
  if (!(rows > 5 && rows < 60)) throw new Error(rows + ' rows');
  await focus('#v-fleet');
  await key('End');
  await until('the last of 10,000 minions', has('#v-fleet', 'minion-9999'));
  await shot('many', 1440, 'light');
  await tabTo('Log out');
  await key('Enter');
  await until('the form of the login again', `!document.querySelector('#s-login').hidden`);
  if (wrong.length) throw new Error(wrong.join('\n'));
  console.log('all is well');
}

main().then(() => browser.kill(), error => { console.error(String(error.stack || error)); browser.kill(); process.exitCode = 1; });
setTimeout(() => { console.error('out of time'); browser.kill(); process.exit(1); }, 240000).unref();
