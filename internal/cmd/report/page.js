'use strict';
(() => {
  const $ = id => document.getElementById(id);
  const data = JSON.parse($('data').textContent);
  const S = data.strings, K = data.kernels, count = K.name.length;
  const texts = new Set(['name', 'demangled', 'arch', 'limits', 'omp_mode']);
  const heads = [...document.querySelectorAll('#kernels th')];
  const fields = heads.map(th => th.dataset.sort);
  const value = (field, i) => texts.has(field) ? S[K[field][i]] : K[field] ? K[field][i] : null;

  const group = n => String(n).replace(/\B(?=(\d{3})+$)/g, ','); // 1,234
  const bytes = n => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let u = 0, v = n;
    while (v >= 1024 && u < units.length - 1) { v /= 1024; u++; }
    return u === 0 ? `${n} B` : `${v.toFixed(1)} ${units[u]}`;
  };
  // Text from files is shown without control characters and the like.
  const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu;
  const printable = s => s.replace(unprintable, c => '\\u{' + c.codePointAt(0).toString(16) + '}');
  const element = (tag, text, className) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };

  // The state of the page is its fragment.
  const initial = '-code_size';
  const state = { q: '', sort: initial, at: '' };
  const readFragment = () => {
    const parts = { q: '', sort: initial, at: '' };
    for (const part of location.hash.slice(1).split('&')) {
      const eq = part.indexOf('=');
      const key = part.slice(0, eq);
      if (eq < 0 || !Object.hasOwn(parts, key)) continue;
      try { parts[key] = decodeURIComponent(part.slice(eq + 1)); } catch { parts[key] = part.slice(eq + 1); }
    }
    const field = parts.sort.replace(/^-/, '');
    if (!fields.includes(field) && !K[field]) parts.sort = initial;
    Object.assign(state, parts);
  };
  const encode = s => encodeURIComponent(s).replace(/%(2B|3A|2C|2F|40)/g, decodeURIComponent);
  const writeFragment = () => {
    const parts = [];
    if (state.q) parts.push('q=' + encode(state.q));
    if (state.sort !== initial) parts.push('sort=' + encode(state.sort));
    if (state.at) parts.push('at=' + encode(state.at));
    const hash = '#' + parts.join('&');
    if (hash !== (location.hash || '#')) history.replaceState(null, '', hash);
  };

  // The table: view has the kernels that match, in order. Of many, the rows near the
  // visible ones are in the document.
  const rows = $('rows'), all = $('all'), table = $('kernels'), body = table.tBodies[0];
  const most = 600;
  let view = [], first = 0, rowHeight = 30, haystack = null;

  const matching = () => {
    const query = state.q.toLowerCase();
    if (!query) return Array.from({ length: count }, (_, i) => i);
    haystack ??= Array.from({ length: count }, (_, i) => [value('demangled', i), value('name', i), value('arch', i)].join('\n').toLowerCase());
    const found = [];
    for (let i = 0; i < count; i++) if (haystack[i].includes(query)) found.push(i);
    return found;
  };
  const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  const sorted = list => {
    const down = state.sort.startsWith('-'), field = state.sort.replace(/^-/, '');
    const keys = list.map(i => value(field, i));
    const none = v => v === null || v === undefined || v === '';
    return list.map((i, k) => k).sort((x, y) => {
      const a = keys[x], b = keys[y];
      if (none(a) || none(b)) return none(a) - none(b) || list[x] - list[y];
      return (down ? compare(b, a) : compare(a, b)) || list[x] - list[y];
    }).map(k => list[k]);
  };
  // Names in the table and in the map: without the result type, namespaces, a wrapper whose first argument is the kernel's
  // function, and parameters. Kernels that differ in these parts only keep them. The title of a row has the full name.
  const parameters = name => {
    if (!name.endsWith(')')) return name.length;
    for (let at = name.length - 1, depth = 0; at > 0; at--) {
      if (name[at] === ')') depth++;
      else if (name[at] === '(' && --depth === 0) return at;
    }
    return name.length;
  };
  // template divides a name into what precedes the first template arguments, and these.
  const template = name => {
    const open = name.indexOf('<'), args = [];
    if (open < 0) return { head: name, args };
    let depth = 0, from = open + 1, at = open;
    for (; at < name.length; at++) {
      const c = name[at];
      if (c === '<' || c === '(') depth++;
      else if (c === '>' || c === ')') depth--;
      if (depth === 0 || depth === 1 && c === ',') {
        args.push(name.slice(from, at).trim());
        from = at + 1;
      }
      if (depth === 0) break;
    }
    return { head: name.slice(0, open), args, end: at + 1 };
  };
  const brief = name => {
    const plain = name.slice(0, parameters(name)).replace(/^void /, '').replace(/\(anonymous namespace\)::/g, '').replace(/\b[A-Za-z_]\w*::/g, '');
    const wrapped = plain.replace(/^\w+<&(?:void )?(?=\w)/, '');
    return (wrapped === plain ? plain : wrapped.slice(0, template(wrapped).end)) || name;
  };
  // abridge returns a form of names in which template arguments that all kernels of a template share are "…".
  const abridge = simplify => {
    const parts = new Map(), values = new Map(); // by name; by template and position of the argument
    const slot = ({ head, args }, k) => `${head} ${args.length} ${k}`;
    for (const index of new Set(K.demangled)) {
      const one = template(brief(S[index]));
      one.args = one.args.map(simplify);
      parts.set(S[index], one);
      one.args.forEach((arg, k) => values.set(slot(one, k), (values.get(slot(one, k)) ?? new Set()).add(arg)));
    }
    return name => {
      const one = parts.get(name), shown = one.args.map((arg, k) => values.get(slot(one, k)).size > 1 ? arg : '…');
      if (shown.every(arg => arg === '…')) return brief(name);
      return `${one.head}<${shown.filter((arg, k) => arg !== '…' || shown[k - 1] !== '…').join(', ')}>`;
    };
  };
  // The shortest of these forms that no other name has.
  const forms = [abridge(arg => arg.replace(/<.*>/, '')), abridge(arg => arg), brief, name => name.replace(/^void /, '')];
  const names = new Set(Array.from(K.demangled, index => S[index]));
  const owners = forms.map(form => {
    const counts = new Map();
    for (const name of names) counts.set(form(name), (counts.get(form(name)) ?? 0) + 1);
    return counts;
  });
  const shortNames = new Map(Array.from(names, name => [name, (forms.find((form, k) => owners[k].get(form(name)) === 1) ?? forms.at(-1))(name)]));
  const shortName = i => shortNames.get(value('demangled', i));
  // Long names keep both ends: kernels of a library often differ at the end.
  const ends = text => text.length > 110 ? text.slice(0, 72) + ' … ' + text.slice(-34) : text;
  // A line of a name can end after each of its words.
  const nameOf = text => {
    const bdi = element('bdi');
    for (const word of text.split(/(?<=[_:])(?=[^_:])/)) bdi.append(word, element('wbr'));
    return bdi;
  };
  const row = position => {
    const i = view[position], tr = element('tr');
    tr.dataset.arch = value('arch', i);
    tr.dataset.name = value('name', i);
    tr.tabIndex = -1;
    tr.setAttribute('aria-rowindex', position + 2);
    for (const field of fields) {
      const v = value(field, i), td = element('td');
      td.dataset.field = field;
      if (texts.has(field)) {
        const text = printable(v ?? '');
        td.append(field === 'demangled' ? nameOf(ends(printable(shortName(i)))) : text);
        td.title = text.length > 2000 ? text.slice(0, 2000) + '…' : text;
        td.className = 't';
      } else if (v !== null && v !== undefined) {
        td.textContent = v;
        if (v > 0 && /vgpr_spills|scratch/.test(field) || field === 'occupancy' && v * 4 < K.occupancy_max[i]) td.className = 'low';
      }
      tr.append(td);
    }
    return tr;
  };
  const drawRows = () => {
    const last = Math.min(view.length, first + most);
    body.replaceChildren(...Array.from({ length: last - first }, (_, k) => row(first + k)));
    table.style.marginTop = first * rowHeight + 'px';
    if (body.rows.length) {
      body.rows[0].tabIndex = 0;
      rowHeight = body.rows[0].getBoundingClientRect().height || rowHeight;
    }
    all.style.height = view.length * rowHeight + table.tHead.getBoundingClientRect().height + 'px';
  };
  const scrolled = () => {
    const top = Math.floor(rows.scrollTop / rowHeight), shown = Math.ceil(rows.clientHeight / rowHeight);
    if (top < first && first > 0 || top + shown > first + most && first + most < view.length) {
      first = Math.max(0, Math.min(top - Math.floor((most - shown) / 2), view.length - most));
      drawRows();
    }
  };
  const focusRow = position => {
    position = Math.max(0, Math.min(position, view.length - 1));
    if (position < first || position >= first + body.rows.length) {
      first = Math.max(0, Math.min(position - most / 2, view.length - most));
      drawRows();
    }
    for (const tr of body.rows) tr.tabIndex = -1;
    const tr = body.rows[position - first];
    if (!tr) return;
    tr.tabIndex = 0;
    tr.focus({ preventScroll: true });
    const y = position * rowHeight, head = table.tHead.getBoundingClientRect().height;
    if (y < rows.scrollTop) rows.scrollTop = y;
    else if (y + rowHeight + head > rows.scrollTop + rows.clientHeight) rows.scrollTop = y + rowHeight + head - rows.clientHeight;
  };
  const updateTable = () => {
    view = sorted(matching());
    first = 0;
    rows.scrollTop = 0;
    $('count').textContent = `${group(view.length)} of ${group(count)} kernels`;
    table.setAttribute('aria-rowcount', view.length + 1);
    const down = state.sort.startsWith('-'), field = state.sort.replace(/^-/, '');
    heads.forEach((th, k) => th.setAttribute('aria-sort', fields[k] !== field ? 'none' : down ? 'descending' : 'ascending'));
    drawRows();
  };

  const detail = $('detail');
  const showDetail = i => {
    $('detail-name').textContent = printable(value('demangled', i));
    const list = $('detail-figures');
    list.replaceChildren();
    const add = (term, text) => {
      if (text !== null && text !== undefined && text !== '') list.append(element('dt', term), element('dd', text));
    };
    add('Symbol', printable(value('name', i)));
    add('Architecture', printable(value('arch', i)));
    add('In', K.place[i].map(s => printable(S[s])).filter(s => s).join(' › '));
    add('Code', K.code_size[i] === null ? null : bytes(K.code_size[i]));
    for (const [term, field] of [['VGPRs', 'vgprs'], ['AGPRs', 'agprs'], ['SGPRs', 'sgprs'], ['VGPR spills', 'vgpr_spills'], ['SGPR spills', 'sgpr_spills'],
      ['Scratch, bytes per lane', 'scratch'], ['LDS, bytes per workgroup', 'lds'], ['Kernel arguments, bytes', 'kernarg'], ['Largest workgroup', 'max_workgroup_size'], ['Wavefront', 'wavefront_size']]) {
      const v = value(field, i);
      add(term, v === null ? null : group(v));
    }
    if (K.occupancy[i] !== null) {
      add('Waves per SIMD', `${K.occupancy[i]} of ${K.occupancy_max[i]}` + (value('limits', i) ? `, limited by ${value('limits', i)}` : ''));
      const b = K.bounds[i];
      if (b) add('Each resource alone', `VGPRs ${b[0]}, SGPRs ${b[1]}, workgroup ${b[2]}, LDS ${b[3]}`);
    }
    add('OpenMP mode', value('omp_mode', i));
    detail.showModal();
  };

  heads.forEach((th, k) => th.firstElementChild.addEventListener('click', () => {
    const field = fields[k], number = !texts.has(field);
    const order = number ? ['-' + field, field] : [field, '-' + field];
    state.sort = state.sort === order[0] ? order[1] : order[0];
    writeFragment();
    updateTable();
  }));
  let frame = 0;
  rows.addEventListener('scroll', () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(scrolled);
  }, { passive: true });
  const positionOf = tr => first + [...body.rows].indexOf(tr);
  body.addEventListener('click', event => {
    const tr = event.target.closest('tr');
    if (tr && !String(getSelection())) showDetail(view[positionOf(tr)]);
  });
  body.addEventListener('keydown', event => {
    const tr = event.target.closest('tr');
    if (!tr || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = positionOf(tr), page = Math.max(1, Math.floor(rows.clientHeight / rowHeight) - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: view.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      focusRow(to);
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      showDetail(view[at]);
    }
  });
  let typing = 0;
  $('q').addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      state.q = $('q').value;
      writeFragment();
      updateTable();
      markFound();
    }, 60);
  });
  $('q').addEventListener('keydown', event => {
    if (event.key === 'ArrowDown' && view.length) {
      event.preventDefault();
      focusRow(first);
    }
  });
  document.querySelector('.skip').addEventListener('click', event => {
    event.preventDefault();
    $('q').focus();
  });

  // What changed, in pieces: the worst first.
  const changed = data.diff ?? [], piece = 200;
  const diffBody = $('diff-kernels')?.tBodies[0];
  const diffFields = [...document.querySelectorAll('#diff-kernels [data-figure]')].map(th => th.dataset.figure);
  const diffRow = d => {
    const tr = element('tr'), name = element('td', undefined, 'name');
    tr.dataset.arch = S[d.arch];
    tr.dataset.name = S[d.name];
    tr.dataset.change = S[d.change];
    name.append(element('bdi', printable(S[d.demangled])));
    name.title = printable(S[d.demangled]).slice(0, 2000);
    tr.append(name, element('td', printable(S[d.arch]), 't'), element('td', S[d.change], 't'));
    for (const field of diffFields) {
      const td = element('td'), [old, now] = d.figures[field] ?? [null, null];
      td.dataset.field = field;
      if (old !== null && now !== null) {
        const by = now - old;
        td.textContent = (by > 0 ? '+' : '') + group(by);
        td.title = `${group(old)} → ${group(now)}`;
        td.className = (field === 'occupancy' ? by < 0 : by > 0) ? 'up' : 'down';
      } else if (old !== null || now !== null) {
        td.textContent = group(old ?? now);
        td.className = 'soft';
      }
      tr.append(td);
    }
    return tr;
  };
  const moreChanges = () => {
    const from = diffBody.rows.length;
    diffBody.append(...changed.slice(from, from + piece).map(diffRow));
    $('diff-more').hidden = diffBody.rows.length >= changed.length;
    $('diff-more').textContent = `Show more (${group(changed.length - diffBody.rows.length)} left)`;
  };
  if (diffBody) {
    moreChanges();
    $('diff-more').addEventListener('click', moreChanges);
  }

  // The map: files, bundles, architectures, and their sections and kernels.
  const kindNames = { file: 'file', bundle: 'bundle', arch: 'architecture', section: 'section', kernel: 'kernel', source: 'source file', line: 'line', other: '' };
  const map = $('treemap');
  const node = (kind, name, size, children, extra) => ({ kind, name, size, children: children ?? [], ...extra });
  // A source is [file, bytes, line, bytes, line, bytes, ...]; code without a source line has no file.
  const sourceNode = ([file, size, ...lines], arch) => {
    const name = S[file], parts = [];
    for (let k = 0; k < lines.length; k += 2) parts.push(node('line', `${name.slice(name.lastIndexOf('/') + 1)}:${lines[k]}`, lines[k + 1], null, { arch }));
    return name ? node('source', name, size, parts, { arch }) : node('other', 'no source', size, null, { arch });
  };
  const kernelNode = (i, arch) => node('kernel', shortName(i), K.code_size[i] ?? 0, (K.sources?.[i] ?? []).map(s => sourceNode(s, arch)), { arch, kernel: i });
  // Source files are drawn after zooming in on an architecture, lines after zooming in on a kernel.
  const shown = c => {
    const zoomed = ['source', 'kernel', 'section', 'other', 'arch'].indexOf(current.kind);
    return c.kind === 'source' ? zoomed === 0 || zoomed === 1 : c.kind !== 'kernel' && c.kind !== 'other' || zoomed >= 0;
  };
  // A node's children are made when it is drawn. limit is how many kernels of each
  // architecture to draw.
  const archNode = a => {
    const arch = S[a.arch];
    return node('arch', arch || 'unknown', a.size, null, {
      arch,
      expand: limit => {
        let kernels = [];
        for (let i = a.first; i < a.first + a.count; i++) kernels.push(i);
        kernels.sort((x, y) => (K.code_size[y] ?? 0) - (K.code_size[x] ?? 0) || x - y);
        const total = kernels.reduce((sum, i) => sum + (K.code_size[i] ?? 0), 0);
        const rest = kernels.slice(limit);
        const parts = kernels.slice(0, limit).map(i => kernelNode(i, arch));
        const restSize = rest.reduce((sum, i) => sum + (K.code_size[i] ?? 0), 0);
        if (rest.length) parts.push(node('other', `${group(rest.length)} smaller kernels`, restSize, null, { arch }));
        let text = null;
        const children = a.sections.map(([name, size]) => {
          const section = node('section', S[name], size, null, { arch });
          if (S[name] === '.text' && size >= total && parts.length) text = section;
          return section;
        });
        if (text) {
          if (text.size > total) parts.push(node('other', 'other code', text.size - total, (a.sources ?? []).map(s => sourceNode(s, arch)), { arch }));
          text.children = parts;
        } else children.push(...parts);
        const known = children.reduce((sum, c) => sum + c.size, 0);
        if (known < a.size) children.push(node('other', a.sections.length ? 'headers' : 'no parts known', a.size - known, null, { arch }));
        return children;
      },
    });
  };
  const tree = data.files.map(f => {
    const bundles = f.bundles.map(b => node('bundle', S[b.name], b.size, b.archs.map(archNode)));
    return node('file', S[f.name], bundles.reduce((sum, b) => sum + b.size, 0), bundles);
  });
  const root = node('root', 'All files', tree.reduce((sum, f) => sum + f.size, 0), tree);
  if (tree.length === 1) root.name = tree[0].name;
  const archCount = data.files.reduce((n, f) => n + f.bundles.reduce((m, b) => m + b.archs.length, 0), 0);

  // Squarified treemap (Bruls, Huizing and van Wijk, 2000): rows along the shorter
  // side, as long as the worst aspect ratio of the row falls.
  const squarify = (items, x, y, w, h, place) => {
    const total = items.reduce((sum, c) => sum + c.size, 0);
    const scale = total > 0 ? Math.max(0, w) * Math.max(0, h) / total : 0;
    const list = items.filter(c => c.size > 0).sort((a, b) => b.size - a.size);
    for (const c of items) if (!(c.size > 0)) place(c, 0, 0, 0, 0);
    let at = 0;
    while (at < list.length) {
      const side = Math.min(w, h);
      let sum = 0, worst = Infinity, end = at;
      const most = list[at].size * scale;
      while (end < list.length) {
        const area = list[end].size * scale, next = sum + area;
        const ratio = side > 0 ? Math.max(side * side * most / (next * next), next * next / (side * side * area)) : Infinity;
        if (end > at && ratio > worst) break;
        sum = next;
        worst = ratio;
        end++;
      }
      const thick = side > 0 ? sum / side : 0;
      let along = 0;
      for (; at < end; at++) {
        const length = thick > 0 ? list[at].size * scale / thick : 0;
        if (w >= h) place(list[at], x, y + along, thick, length);
        else place(list[at], x + along, y, length, thick);
        along += length;
      }
      if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    }
  };

  const share = (c, parent) => parent && parent.size > 0 ? (100 * c.size / parent.size).toFixed(1) + ' % of ' + printable(parent.name).slice(0, 80) : '';
  const label = c => [kindNames[c.kind], printable(c.name), bytes(c.size)].filter(s => s).join(' ');
  const occupancyClass = i => {
    if (K.occupancy[i] === null) return 'ox';
    return 'o' + Math.min(4, Math.floor(4 * K.occupancy[i] / K.occupancy_max[i]));
  };
  let nodes = new Map(); // by element
  let current = root;
  const atPath = path => {
    let c = root;
    for (const step of path.split('.').filter(s => s)) {
      const next = childrenOf(c)[Number(step)];
      if (!next || !isContainer(next)) break;
      c = next;
    }
    return c;
  };
  const isContainer = c => Boolean(c.expand) || c.children.length > 0;
  let limit = 10;
  const childrenOf = c => {
    if (c.expand && c.made !== limit) {
      c.made = limit;
      c.children = c.expand(limit);
    }
    c.children.forEach((child, k) => {
      child.parent = c;
      child.path = c === root ? String(k) : c.path + '.' + k;
    });
    return c.children;
  };
  const draw = (c, x, y, w, h) => {
    const e = element('div');
    nodes.set(e, c);
    c.element = e;
    e.dataset.kind = c.kind;
    e.dataset.size = c.size;
    if (c.arch !== undefined) e.dataset.arch = c.arch;
    if (c.kernel !== undefined) {
      e.dataset.name = value('name', c.kernel);
      e.className = occupancyClass(c.kernel);
    }
    const children = shown(c) ? childrenOf(c) : [];
    e.setAttribute('role', children.length ? 'group' : c.kernel !== undefined ? 'button' : 'img');
    e.setAttribute('aria-label', label(c));
    e.tabIndex = -1;
    const small = w < 1 || h < 1;
    if (small) e.hidden = true;
    else Object.assign(e.style, { left: x + 'px', top: y + 'px', width: Math.max(1, w - 1) + 'px', height: Math.max(1, h - 1) + 'px' });
    const named = w > 34 && h > 17;
    if (named) {
      const text = printable(c.name), span = element('span', text.length > 120 ? text.slice(0, 120) + '…' : text);
      if (children.length || w > 90) span.append(' ', bytes(c.size));
      span.ariaHidden = 'true'; // the label says it
      e.append(span);
    }
    if (children.length) {
      const head = named && h > 44 ? 18 : 2, pad = w > 60 && h > 44 ? 2 : 1;
      if (head === 2) e.replaceChildren();
      const cw = Math.max(0, w - 1 - 2 * pad), ch = Math.max(0, h - 1 - head - pad);
      squarify(children, pad, head, cw, ch, (child, cx, cy, w2, h2) => {
        draw(child, cx, cy, w2, h2);
      });
      // In the document as in the tree: by size, the rest last.
      e.append(...children.map(child => child.element).filter(child => child));
    }
    return e;
  };
  const drawMap = () => {
    const focused = map.contains(document.activeElement) ? nodes.get(document.activeElement) : null;
    current = atPath(state.at);
    let archs = archCount;
    if (current !== root) archs = countArchs(current);
    limit = Math.max(10, Math.floor(2400 / Math.max(1, archs)));
    for (let c = current; c; c = c.parent) if (c.expand) limit = 2000;
    current = atPath(state.at);
    nodes = new Map();
    const box = map.getBoundingClientRect();
    const top = current === root ? childrenOf(root) : [current];
    const elements = [];
    squarify(top, 0, 0, box.width, box.height, (c, x, y, w, h) => {
      elements.push(draw(c, x, y, w, h));
    });
    map.replaceChildren(...elements);
    const start = focused && [...nodes].find(([, c]) => c.path === focused.path)?.[0];
    const home = start ?? elements[0];
    if (home) {
      home.tabIndex = 0;
      if (focused) home.focus();
    }
    crumbs();
    markFound();
  };
  const countArchs = c => c.kind === 'arch' ? 1 : c.children.reduce((n, child) => n + (child.kind === 'arch' || child.children.length ? countArchs(child) : 0), 0);
  const crumbs = () => {
    const trail = [];
    for (let c = current; c; c = c.parent) trail.unshift(c);
    if (trail[0] !== root) trail.unshift(root);
    $('crumbs').replaceChildren(...trail.map((c, k) => {
      const li = element('li'), text = c === root && tree.length === 1 ? 'All' : printable(c.name);
      const button = element('button', text);
      button.type = 'button';
      button.title = label(c);
      if (k === trail.length - 1) button.setAttribute('aria-current', 'true');
      button.addEventListener('click', () => zoom(c === root ? '' : c.path));
      li.append(button);
      return li;
    }));
  };
  const markFound = () => {
    map.classList.toggle('found', Boolean(state.q));
    const hits = state.q ? new Set(view) : null;
    for (const [e, c] of nodes) if (c.kernel !== undefined) e.classList.toggle('hit', Boolean(hits?.has(c.kernel)));
  };
  const zoom = path => {
    state.at = path;
    writeFragment();
    drawMap();
  };
  const activate = c => {
    if (c.kernel !== undefined && (c === current || !isContainer(c))) showDetail(c.kernel);
    else if (isContainer(c)) zoom(c === current ? c.parent && c.parent !== root ? c.parent.path : '' : c.path);
  };
  map.addEventListener('click', event => {
    const e = event.target.closest('[data-kind]');
    if (e) activate(nodes.get(e));
  });
  const focusPart = e => {
    for (const other of nodes.keys()) other.tabIndex = -1;
    e.tabIndex = 0;
    e.focus();
  };
  map.addEventListener('keydown', event => {
    const e = event.target.closest('[data-kind]');
    if (!e || event.altKey || event.ctrlKey || event.metaKey) return;
    const part = list => list.find(x => nodes.has(x) && !x.hidden);
    const siblings = [...e.parentElement.children].filter(x => nodes.has(x) && !x.hidden);
    const at = siblings.indexOf(e);
    const to = {
      ArrowDown: () => siblings[at + 1], ArrowUp: () => siblings[at - 1], Home: () => siblings[0], End: () => siblings.at(-1),
      ArrowRight: () => part([...e.children]), ArrowLeft: () => nodes.has(e.parentElement) ? e.parentElement : null,
    }[event.key];
    if (to) {
      event.preventDefault();
      const next = to();
      if (next) focusPart(next);
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      activate(nodes.get(e));
    } else if (event.key === 'Escape' && current !== root) {
      event.preventDefault();
      zoom(current.parent && current.parent !== root ? current.parent.path : '');
    }
  });

  const tip = $('tip');
  const showTip = (e, x, y) => {
    const c = nodes.get(e);
    tip.replaceChildren(element('b', printable(c.name).slice(0, 600)), element('div', [kindNames[c.kind], c.arch && c.kind !== 'arch' ? printable(c.arch) : '', bytes(c.size), share(c, c.parent)].filter(s => s).join(' · ')));
    if (c.kernel !== undefined && K.occupancy[c.kernel] !== null) {
      tip.append(element('div', `${K.occupancy[c.kernel]} of ${K.occupancy_max[c.kernel]} waves per SIMD` + (value('limits', c.kernel) ? `, limited by ${value('limits', c.kernel)}` : '')));
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + 'px';
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + 'px';
  };
  map.addEventListener('pointermove', event => {
    const e = event.target.closest('[data-kind]');
    if (e) showTip(e, event.clientX, event.clientY);
  });
  map.addEventListener('pointerleave', () => { tip.hidden = true; });
  map.addEventListener('focusin', event => {
    if (!event.target.matches(':focus-visible')) return;
    const box = event.target.getBoundingClientRect();
    showTip(event.target, box.left, Math.min(box.top + 20, innerHeight - 80));
  });
  map.addEventListener('focusout', () => { tip.hidden = true; });

  const apply = () => {
    const at = state.at, again = map.childElementCount > 0;
    readFragment();
    if (document.activeElement !== $('q') || $('q').value !== state.q) $('q').value = state.q;
    updateTable();
    if (again && at === state.at) markFound();
    else drawMap();
  };
  addEventListener('hashchange', apply);
  let drawn = '', pending = 0;
  const extent = () => {
    const box = map.getBoundingClientRect();
    return `${Math.round(box.width)} ${Math.round(box.height)}`;
  };
  new ResizeObserver(() => {
    if (extent() === drawn) return;
    drawn = extent();
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(drawMap);
  }).observe(map);
  apply();
  drawn = extent();
})();
