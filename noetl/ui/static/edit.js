// The editor of playbooks: the field of the form becomes one that colours, completes, and says what
// is wrong while one types. Without it the form checks and registers by its buttons.
"use strict";

{
  const CHECK_AFTER_MS = 400;
  const form = document.getElementById("edit");
  const area = document.getElementById("text");
  const register = document.getElementById("register");
  const said = document.getElementById("edit-live");
  const { Range } = ace.require("ace/range");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Where the cursor was when a version was registered, for the page that follows.
  const KEPT = "noetl.edit";

  ace.config.set("useStrictCSP", true);
  const host = document.createElement("div");
  host.className = "edit-ace";
  area.before(host);
  area.hidden = true;
  const editor = ace.edit(host);
  const session = editor.session;
  session.setUseWorker(false);
  session.setMode(make_mode());
  editor.setOptions({
    tabSize: 2,
    useSoftTabs: true,
    showPrintMargin: false,
    fontSize: 13,
    scrollPastEnd: 0.3,
    useSvgGutterIcons: true,
    readOnly: area.readOnly,
    textInputAriaLabel: "Text of the playbook",
    enableBasicAutocompletion: true,
    enableLiveAutocompletion: true,
    enableSnippets: false,
    wrap: true,
    indentedSoftWrap: true,
  });
  // The editor's own indents behind an open bracket alone.
  function make_mode() {
    const mode = new (ace.require("ace/mode/yaml").Mode)();
    mode.getNextLineIndent = (_state, line, tab) => find_indent(line, tab);
    return mode;
  }

  // What follows stands below a key that has no value yet; else beside the key, behind the dash of its item.
  function find_indent(line, tab) {
    const [lead, rest] = /^((?:\s|- +)*)(.*)$/.exec(line).slice(1);
    const opens = !rest.startsWith("#") && /(:|[:-] +[|>][-+\d]*|[[{(])\s*$/.test(rest);
    return " ".repeat(lead.length) + (opens ? tab : "");
  }

  // Both would load more scripts.
  for (const name of ["showSettingsMenu", "openCommandPalette"]) editor.commands.removeCommand(name);

  function dress_editor() {
    editor.setTheme({ cssClass: "ace-noetl", isDark: dark.matches, cssText: "" });
  }
  dark.addEventListener("change", dress_editor);
  dress_editor();
  session.setValue(area.value);
  for (const one of document.querySelectorAll(".scripted-only")) one.hidden = false;

  function say(text) {
    said.textContent = text;
    said.classList.toggle("unseen", text === "" || /^(No problems|\d)/.test(text));
  }

  // The server counts characters, and scripts what they are stored as.
  const to_server = (row, column) => [...session.getLine(row).slice(0, column)].length;
  const from_server = (row, column) => [...session.getLine(row)].slice(0, column).join("").length;

  // --- what is wrong -----------------------------------------------------------------------------

  let asked = 0;
  let timer = 0;
  let marks = [];

  function fill_form() {
    area.value = editor.getValue();
    return new URLSearchParams(new FormData(form));
  }

  async function ask(path, more = {}) {
    const body = fill_form();
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    const answer = await fetch(path, { method: "POST", body, headers: { "HX-Request": "true" } });
    const login = answer.headers.get("HX-Redirect");
    if (login !== null) throw new Error("Sign in again, in another tab: the text stays here.");
    if (!answer.ok) throw new Error(answer.status === 413 ? "The text is too long." : "The server cannot check the text now.");
    return answer;
  }

  // Whether what is shown is about the text as it is now.
  async function check() {
    clearTimeout(timer);
    const number = ++asked;
    let text;
    try {
      text = await (await ask("/edit/check")).text();
    } catch (error) {
      if (number === asked) say(error instanceof TypeError ? "The server does not answer; the text stays here." : error.message);
      return false;
    }
    // An answer to what has been typed since is on its way.
    if (number !== asked) return false;
    show(new DOMParser().parseFromString(text, "text/html").getElementById("found"));
    return true;
  }

  function show(found) {
    const old = document.getElementById("found");
    const plan = found.querySelector("details");
    if (plan !== null) plan.open = isPlanOpen;
    // As long as the text has errors, what it was last stays in sight.
    else keep_plan(old, found);
    const top = old.scrollTop;
    old.replaceWith(found);
    found.scrollTop = top;
    say(found.querySelector("h2").textContent);
    annotate();
  }

  function keep_plan(old, found) {
    const plan = old.querySelector(".edit-plan");
    if (plan === null) return;
    if (!plan.classList.contains("stale")) plan.querySelector("summary").append(", before these errors");
    plan.classList.add("stale");
    found.append(plan);
  }

  let isPlanOpen = true;
  form.addEventListener("toggle", ({ target }) => {
    if (target.matches(".edit-plan")) isPlanOpen = target.open;
  }, true);

  function place_of(problem) {
    const row = Math.min(Number(problem.dataset.line), session.getLength()) - 1;
    return { row, column: from_server(row, Number(problem.dataset.column) - 1) };
  }

  function annotate() {
    const problems = [...document.querySelectorAll("#found .problem")];
    session.setAnnotations(problems.map((one) => ({
      ...place_of(one),
      type: one.dataset.severity === "note" ? "info" : one.dataset.severity,
      text: one.querySelector(".problem-message").textContent,
    })));
    for (const id of marks) session.removeMarker(id);
    marks = problems.map((one) => {
      const { row, column } = place_of(one);
      const word = /^[^\s:,{}[\]]+/.exec(session.getLine(row).slice(column)) ?? [" "];
      return session.addMarker(new Range(row, column, row, column + word[0].length), "edit-mark " + one.dataset.severity, "text");
    });
  }

  form.addEventListener("click", (event) => {
    const problem = event.target.closest("a.place")?.closest(".problem");
    if (!problem) return;
    event.preventDefault();
    const { row, column } = place_of(problem);
    editor.gotoLine(row + 1, column);
    editor.focus();
  });

  let isTyped = false;
  session.on("change", () => {
    isTyped = true;
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_AFTER_MS);
  });
  annotate();

  // --- completion ----------------------------------------------------------------------------------

  // Whoever types on meanwhile is offered what fits there, and not what fitted where it was asked.
  async function ask_where_the_cursor_is(at) {
    const { row, column } = at;
    const answer = await (await ask("/edit/complete", { line: row, column: to_server(row, column) })).json();
    const now = editor.getCursorPosition();
    return now.row === row && now.column === column ? { row, answer } : ask_where_the_cursor_is(now);
  }

  const completer = {
    id: "noetl",
    identifierRegexps: [/[\w./-]/],
    async getCompletions(_editor, _session, at, _prefix, callback) {
      // The list has a field of its own, which nobody should come to.
      editor.completer.getPopup().renderer.textarea.tabIndex = -1;
      try {
        const { row, answer } = await ask_where_the_cursor_is(at);
        const begin = from_server(row, answer.begin);
        callback(null, answer.offers.map((one, index) => ({
          caption: one.label,
          value: one.text,
          meta: one.what,
          docText: one.about,
          score: answer.offers.length - index,
          begin,
          completer,
        })));
      } catch {
        callback(null, []);
      }
    },
    insertMatch(_editor, { value, begin }) {
      const { row, column } = editor.getCursorPosition();
      const rest = session.getLine(row).slice(column);
      // Where a colon follows, only the key is replaced.
      const text = rest.trimStart().startsWith(":") ? value.replace(/:\s*$/, "") : value;
      const end = session.replace(new Range(row, begin, row, column), text);
      editor.moveCursorToPosition(end);
      editor.clearSelection();
      // What comes behind a key is mostly known, too.
      if (/[:-]\s+$/.test(text)) setTimeout(() => editor.execCommand("startAutocomplete"), 0);
    },
  };
  editor.completers = [completer];
  // The first answer takes longer than all others.
  if (!area.readOnly) ask("/edit/complete", { line: 0, column: 0 }).catch(() => {});

  // --- registering ---------------------------------------------------------------------------------

  const dialog = document.getElementById("dialog");

  function send() {
    isTyped = false;
    fill_form();
    const { row, column } = editor.getCursorPosition();
    sessionStorage.setItem(KEPT, JSON.stringify({ row, column, top: session.getScrollTop() }));
    const button = document.createElement("input");
    Object.assign(button, { type: "hidden", name: "do", value: "register" });
    form.append(button);
    form.submit();
  }

  function ask_first(found) {
    const title = document.createElement("h1");
    title.id = "dialog-title";
    title.textContent = "Register with " + found.querySelector("h2").textContent + "?";
    const list = found.querySelector(".problems").cloneNode(true);
    for (const one of list.querySelectorAll("a")) one.replaceWith(one.textContent);
    const buttons = document.createElement("p");
    buttons.className = "buttons";
    const sure = document.createElement("button");
    sure.className = "main";
    sure.textContent = "Register";
    sure.addEventListener("click", send);
    const back = document.createElement("button");
    back.className = "close";
    back.textContent = "Back to the text";
    back.addEventListener("click", () => setTimeout(() => editor.focus(), 0));
    buttons.append(sure, back);
    dialog.replaceChildren(title, list, buttons);
    dialog.showModal();
    sure.focus();
  }

  async function try_to_register() {
    if (area.readOnly || dialog.open || !(await check())) return;
    const found = document.getElementById("found");
    if (found.dataset.errors !== "0") {
      say("Not registered: " + found.querySelector("h2").textContent + ".");
      found.querySelector("a.place").click();
    } else if (found.dataset.warnings !== "0") ask_first(found);
    else send();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.submitter?.id === "check") check();
    else try_to_register();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    try_to_register();
  });

  // Tab indents, and so the keyboard needs a way out.
  editor.commands.addCommand({
    name: "leave",
    bindKey: "Esc",
    readOnly: true,
    exec: () => (register ?? document.querySelector("#found a, #found summary"))?.focus(),
  });

  addEventListener("beforeunload", (event) => {
    if (isTyped) event.preventDefault();
  });

  const kept = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (kept !== null && new URLSearchParams(location.search).has("now")) {
    const { row, column, top } = JSON.parse(kept);
    editor.focus();
    editor.moveCursorTo(row, column);
    session.setScrollTop(top);
  }
}
