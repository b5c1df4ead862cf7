// Draws the treemap from the table that is shown beside it, and moves with the keys in both charts.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const HEAD = 18, LETTER = 6.9, LINE = 15;
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const select = find("#library"), svg = find("#treemap svg"), said = find("#said");

  function element(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // one option of a chart is in the order of tabs, and the arrows move between them by place
  function navigate(chart, say, enter) {
    const options = () => all("[role=option]", chart);
    const middle = (one) => {
      const box = one.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    function choose(one, focus) {
      for (const other of all("[tabindex='0'], [aria-selected=true]", chart)) {
        other.setAttribute("tabindex", "-1");
        other.setAttribute("aria-selected", "false");
      }
      one.setAttribute("tabindex", "0");
      one.setAttribute("aria-selected", "true");
      if (focus) one.focus();
      say(one);
    }
    function next(from, key) {
      const [x, y] = middle(from), every = options();
      if (key === "Home") return every[0];
      if (key === "End") return every[every.length - 1];
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
      let best = null, least = Infinity;
      for (const one of every) {
        const [a, b] = middle(one);
        const along = (a - x) * dx + (b - y) * dy, aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
        if (along > 0.5 && along + 2 * aside < least) [best, least] = [one, along + 2 * aside];
      }
      return best;
    }
    // on what the chart is in: an <svg> that listens to the focus can have it
    const around = chart.parentElement;
    const listen = (kind, react) =>
      around.addEventListener(kind, (event) => {
        const one = event.target.closest("[role=option]");
        if (one) react(one, event);
      });
    listen("keydown", (from, event) => {
      if (event.key === "Enter" || event.key === " ") enter(from);
      else if (/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key)) choose(next(from, event.key) ?? from, true);
      else return;
      event.preventDefault();
    });
    listen("focusin", (one) => choose(one, false));
    listen("click", (one) => { choose(one, true); enter(one); });
    listen("mouseover", (one) => say(one));
    return () => options().forEach((one, number) => one.setAttribute("tabindex", number ? "-1" : "0"));
  }

  const rows = new Map();
  const mark = (row) => {
    for (const one of all("tr.on")) one.classList.remove("on");
    if (row) row.classList.add("on");
  };
  const ready = navigate(
    svg,
    (cell) => { said.textContent = cell.getAttribute("aria-label"); mark(rows.get(cell)); },
    (cell) => rows.get(cell)?.scrollIntoView({ block: "nearest" }),
  );

  function fitting(text, width) {
    const most = Math.floor(width / LETTER);
    return text.length <= most ? text : most > 3 ? text.slice(0, most - 1) + "…" : "";
  }

  function tree(table) {
    const groups = new Map(), top = [];
    for (const row of all("tbody tr", table)) {
      const leaf = { row, name: row.cells[0].textContent, value: Number(row.dataset.v), colour: row.className };
      const group = row.dataset.g;
      if (!group) { top.push(leaf); continue; }
      if (!groups.has(group)) { groups.set(group, { name: group, colour: leaf.colour, children: [] }); top.push(groups.get(group)); }
      groups.get(group).children.push(leaf);
    }
    return { children: top };
  }

  function draw() {
    const shown = all(".libraries > details"), by = find("input[name=by]:checked").value;
    const library = shown.find((one) => one.id === select.value);
    for (const one of shown) one.classList.toggle("on", one === library);
    library.open = true;
    const parts = all("[data-by]", library), part = parts.find((one) => one.dataset.by === by);
    for (const one of parts) one.classList.toggle("on", one === part);
    const { width, height } = svg.getBoundingClientRect();
    svg.replaceChildren();
    rows.clear();
    mark(null);
    svg.setAttribute("aria-label", "Treemap of " + part.getAttribute("aria-label"));
    const root = d3.hierarchy(tree(part)).sum((one) => one.value).sort((a, b) => b.value - a.value);
    d3.treemap().size([width, height]).paddingInner(2).paddingTop((one) => (one.depth === 1 ? HEAD : 0)).round(true)(root);
    for (const group of root.children?.filter((one) => one.children) ?? []) {
      const g = element("g", { class: group.data.colour, "aria-hidden": "true" }, svg);
      const wide = group.x1 - group.x0;
      element("rect", { class: "group", x: group.x0, y: group.y0, width: wide, height: group.y1 - group.y0 }, g);
      const own = group.y1 - group.y0 > HEAD ? fitting(group.data.name, wide - 8) : "";
      if (own) element("text", { class: "head", x: group.x0 + 4, y: group.y0 + 13 }, g, own);
    }
    const whole = root.value || 1;
    for (const leaf of root.leaves().filter((one) => one.data.row)) {
      const { name, row, colour, value } = leaf.data, wide = leaf.x1 - leaf.x0, high = leaf.y1 - leaf.y0;
      const amount = value.toLocaleString("en-US") + " bytes";
      const group = leaf.depth > 1 ? ", " + leaf.parent.data.name : "";
      const label = `${name}${group}: ${amount}, ${((100 * value) / whole).toFixed(1)} %`;
      const g = element("g", { role: "option", "aria-selected": "false", "aria-label": label, tabindex: "-1", class: colour }, svg);
      element("rect", { x: leaf.x0, y: leaf.y0, width: Math.max(wide, 0), height: Math.max(high, 0) }, g);
      const short = name.includes("/") && leaf.depth > 1 ? name.slice(name.lastIndexOf("/") + 1) : name;
      if (high > LINE + 2) element("text", { x: leaf.x0 + 5, y: leaf.y0 + 14 }, g, fitting(short, wide - 8));
      if (high > 2 * LINE + 4) element("text", { x: leaf.x0 + 5, y: leaf.y0 + 29 }, g, fitting(value.toLocaleString("en-US"), wide - 8));
      rows.set(g, row);
    }
    said.textContent = `${select.selectedOptions[0].textContent}: ${whole.toLocaleString("en-US")} bytes by ${by}`;
    ready();
  }

  function follow() {
    const asked = location.hash.slice(1);
    if ([...select.options].some((one) => one.value === asked)) { select.value = asked; draw(); find("#inside").scrollIntoView(); }
  }

  if (select.options.length) {
    document.documentElement.classList.add("live");
    select.addEventListener("change", draw);
    for (const one of all("input[name=by]")) one.addEventListener("change", draw);
    let waiting = 0;
    addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 100); });
    addEventListener("hashchange", follow);
    draw();
    follow();
  }
  const timeline = find("#timeline");
  if (timeline) {
    const ran = find("#ran");
    navigate(timeline, (bar) => { ran.textContent = find(".hidden", bar).textContent; }, () => {})();
  }
  document.documentElement.dataset.drawn = Math.round(performance.now());
})();
