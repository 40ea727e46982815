"use strict";
/*
 * The review page: shows one answer at a time, keeps the marks, saves them as JSON. Texts of the data are put in
 * as text, never as HTML.
 */
(function () {
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent);
  const samples = data.samples;
  const storageName = "metier-review:" + document.documentElement.dataset.page;
  const verdictWords = { correct: "right", incorrect: "wrong", unsure: "unsure", unreadable: "no readable verdict" };
  const markNames = ["correct", "incorrect", "unsure"];

  // ------------------------------------------------------------------ marks

  const keyOf = (sample) => JSON.stringify([sample.task, sample.id]);

  /* Marks by sample: what a person said before, then what this browser remembers. */
  function loadMarks() {
    const marks = new Map();
    for (const sample of samples) if (markNames.includes(sample.human)) marks.set(keyOf(sample), sample.human);
    try {
      const kept = JSON.parse(localStorage.getItem(storageName) || "[]");
      for (const [key, verdict] of kept) {
        if (markNames.includes(verdict)) marks.set(key, verdict);
        else marks.delete(key);
      }
    } catch (problem) {
      // A browser that keeps nothing: marks last as long as the page.
    }
    return marks;
  }

  const marks = loadMarks();

  function keepMarks() {
    const kept = samples.map((sample) => [keyOf(sample), marks.get(keyOf(sample)) || ""]);
    try {
      localStorage.setItem(storageName, JSON.stringify(kept));
    } catch (problem) {
      // As above.
    }
  }

  // ------------------------------------------------------------------ filter

  let current = 0;

  /* Two judges that decided said different things. */
  function disagree(sample) {
    const said = [sample.rule, sample.llm, marks.get(keyOf(sample))];
    return said.includes("correct") && said.includes("incorrect");
  }

  function fits(sample) {
    const task = element("task").value;
    const show = element("show").value;
    const mark = marks.get(keyOf(sample));
    if (task !== "" && sample.task !== task) return false;
    if (show === "open") return mark === undefined;
    if (markNames.includes(show)) return mark === show;
    if (show === "rule-correct") return sample.rule === "correct";
    if (show === "rule-incorrect") return sample.rule === "incorrect";
    if (show === "disagree") return disagree(sample);
    return true;
  }

  /* The nearest sample that fits, from `start` in the given direction; -1: none. */
  function find(start, direction) {
    for (let i = start; i >= 0 && i < samples.length; i += direction) if (fits(samples[i])) return i;
    return -1;
  }

  function move(direction) {
    const found = find(current + direction, direction);
    if (found >= 0) current = found;
    draw();
    if (found >= 0) window.scrollTo(0, 0);
  }

  function filterChanged() {
    let found = find(current, 1);
    if (found < 0) found = find(current, -1);
    if (found >= 0) current = found;
    draw(found < 0);
  }

  // ------------------------------------------------------------------ drawing

  function drawVerdicts(sample, mark) {
    const place = element("verdicts");
    place.replaceChildren();
    if (mark === undefined && !element("reveal").checked) {
      place.textContent = "shown once you have marked the answer";
      return;
    }
    for (const judge of ["rule", "llm"]) {
      const said = sample[judge];
      const part = document.createElement("span");
      part.className = said;
      part.textContent = (judge === "rule" ? "rule: " : "language model: ") + (verdictWords[said] || "nothing");
      place.append(part, judge === "rule" ? ", " : "");
    }
  }

  function draw(nothing) {
    const marked = samples.filter((sample) => marks.has(keyOf(sample))).length;
    const fitting = samples.filter(fits).length;
    element("counts").textContent = marked + " of " + samples.length + " marked, " + fitting + " shown";
    element("progress").value = samples.length > 0 ? marked / samples.length : 0;
    const empty = nothing === true || samples.length === 0;
    element("card").hidden = empty;
    element("nothing").hidden = !empty;
    for (const name of markNames) element(name).disabled = empty;
    if (empty) return;
    const sample = samples[current];
    const mark = marks.get(keyOf(sample));
    element("where").textContent = sample.task + ", sample " + sample.id + " (" + (current + 1) + " of " + samples.length + ")";
    element("mark").textContent = mark === undefined ? "not marked" : "marked " + verdictWords[mark];
    element("mark").className = "mark " + (mark || "");
    for (const part of ["question", "reference", "answer", "extracted"]) element(part).textContent = sample[part];
    drawVerdicts(sample, mark);
    for (const name of markNames) {
      element(name).classList.toggle("chosen", mark === name);
      element(name).setAttribute("aria-pressed", String(mark === name));
    }
  }

  // ------------------------------------------------------------------ acting

  /* A second time takes the mark back. */
  function setMark(verdict) {
    if (element("card").hidden) return;
    const key = keyOf(samples[current]);
    const taken = marks.get(key) === verdict;
    if (taken) marks.delete(key);
    else marks.set(key, verdict);
    keepMarks();
    if (!taken && element("advance").checked) move(1);
    else draw();
  }

  function save() {
    const list = [];
    for (const sample of samples) {
      const verdict = marks.get(keyOf(sample));
      if (verdict === undefined) continue;
      list.push({ task: sample.task, id: sample.id, answer_hash: sample.answer_hash,
                  question_hash: sample.question_hash, verdict: verdict });
    }
    const text = JSON.stringify({ format: "metier-review", version: 1, run: data.run, marks: list }, null, 1) + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "review.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const keys = {
    r: () => setMark("correct"), 1: () => setMark("correct"),
    w: () => setMark("incorrect"), 2: () => setMark("incorrect"),
    u: () => setMark("unsure"), 3: () => setMark("unsure"),
    ArrowRight: () => move(1), n: () => move(1), j: () => move(1),
    ArrowLeft: () => move(-1), p: () => move(-1), k: () => move(-1),
    s: save,
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  function fillTasks() {
    const names = [...new Set(samples.map((sample) => sample.task))];
    element("task").append(new Option("all tasks", ""));
    for (const name of names) element("task").append(new Option(name, name));
  }

  fillTasks();
  document.title = "Review of " + data.run;
  element("title").textContent = "Review of " + data.run;
  for (const name of markNames) element(name).addEventListener("click", () => setMark(name));
  element("next").addEventListener("click", () => move(1));
  element("previous").addEventListener("click", () => move(-1));
  element("save").addEventListener("click", save);
  for (const name of ["task", "show"]) element(name).addEventListener("change", filterChanged);
  element("reveal").addEventListener("change", () => draw());
  draw(samples.length === 0);
}());
