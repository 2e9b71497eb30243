"use strict";

const MOST_ALTERNATIVES = 4;
const part = (id) => document.getElementById(id);
const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });
let beams = {};
let running = null;
// The last answer, and the request that it answers.
let shown = null;

function languageName(code, name) {
  try {
    return names.of(code) || name;
  } catch {
    return name;
  }
}

function direction() {
  return part("direction").value.split("|");
}

async function start() {
  const [languages, settings] = await Promise.all(["languages", "settings"].map((path) => call(path)));
  beams = settings.beams;
  part("key-part").hidden = !settings.keyRequired;
  const name = Object.fromEntries(languages.map(({ code, name }) => [code, languageName(code, name)]));
  const add = (source, target, text) => part("direction").append(new Option(text, `${source}|${target}`));
  for (const { code, targets } of languages)
    for (const target of targets) add(code, target, `${name[code]} → ${name[target] || languageName(target, target)}`);
  if (languages.length > 1)
    for (const target of new Set(languages.flatMap(({ targets }) => targets)))
      add("auto", target, `Detect language → ${name[target] || languageName(target, target)}`);
  followDirection();
}

async function call(path, fields, signal) {
  const sent = fields && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields) };
  let answer;
  try {
    answer = await fetch(path, { ...sent, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server is not responding.");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error || `The server answered with status ${answer.status}.`);
  return found;
}

function reversed() {
  const [source, target] = direction();
  return [...part("direction").options].find(({ value }) => value === `${target}|${source}`);
}

function followDirection() {
  const [source] = direction();
  part("source").lang = source === "auto" ? "" : source;
  part("swap").disabled = !reversed();
  // The last answer, which tells the beam, is of another direction.
  part("more").disabled = true;
  expand(false);
}

function fail(error) {
  part("fault").textContent = error.message;
  part("fault").hidden = false;
  part("status").textContent = "";
}

// Translates the text. Returns null if a later request or a fault ended this request.
async function ask(alternatives) {
  if (running) running.abort();
  const request = (running = new AbortController());
  const [source, target] = direction();
  const fields = { q: part("source").value, source, target, alternatives, details: true };
  if (part("key").value) fields.api_key = part("key").value;
  part("fault").hidden = true;
  part("status").textContent = "Translating …";
  part("result").setAttribute("aria-busy", "true");
  try {
    return { fields, answer: await call("translate", fields, request.signal) };
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
    return null;
  } finally {
    if (running === request) {
      running = null;
      part("result").removeAttribute("aria-busy");
    }
  }
}

function marked(text, copied) {
  const known = new Set(copied);
  return text.split(/(<unk>|[\p{L}\p{M}\p{N}]+)/u).map((word) => {
    if (word !== "<unk>" && !known.has(word)) return document.createTextNode(word);
    const mark = document.createElement("mark");
    mark.className = word === "<unk>" ? "unknown" : "copied";
    mark.title = word === "<unk>" ? "This word is unknown to the model" : "Copied from the text";
    mark.textContent = word;
    return mark;
  });
}

function show({ fields, answer }) {
  const sentences = answer.sentences;
  const result = part("result");
  const text = answer.translatedText;
  result.replaceChildren();
  result.lang = fields.target;
  let end = 0;
  for (const { translations } of sentences) {
    const { text: translation, copied } = translations[0];
    const start = text.indexOf(translation, end);
    if (start < 0) continue;
    result.append(text.slice(end, start), ...marked(translation, copied));
    end = start + translation.length;
  }
  result.append(text.slice(end));
  // A screen reader would read each text node by itself.
  result.normalize();
  const notes = {
    copied: [...new Set(sentences.flatMap(({ translations }) => translations[0].copied))],
    unknown: [...new Set(sentences.flatMap(({ unknown }) => unknown))],
  };
  for (const [kind, words] of Object.entries(notes)) {
    part(kind).textContent = words.join(", ");
    part(`${kind}-part`).hidden = !words.length;
  }
  part("notes").hidden = !notes.copied.length && !notes.unknown.length;
  const counts = Object.entries(notes).filter(([, words]) => words.length).map(([kind, words]) => `${words.length} ${kind}`);
  const detected = answer.detectedLanguage;
  part("status").textContent = [
    text ? "Translated." : "Nothing to translate.",
    detected && `Detected language: ${languageName(detected.language, detected.language)}.`,
    counts.length && `Words: ${counts.join(", ")}.`,
  ].filter(Boolean).join(" ");
  part("copy").disabled = !text;
  part("more").disabled = !sentences.length;
  shown = { fields, answer };
}

function list(sentences) {
  part("lists").replaceChildren(...sentences.flatMap(({ source, translations }) => {
    const head = document.createElement("h3");
    head.textContent = source;
    head.dir = "auto";
    const options = document.createElement("ol");
    options.append(...translations.map(({ text, score, copied }) => {
      const item = document.createElement("li");
      const note = document.createElement("span");
      note.className = "score";
      note.textContent = ` (score ${score.toFixed(3)})`;
      item.append(...marked(text, copied), note);
      item.normalize();
      return item;
    }));
    return [head, options];
  }));
}

function expand(open) {
  part("alternatives").hidden = !open;
  part("more").setAttribute("aria-expanded", String(open));
}

async function translate() {
  expand(false);
  const found = await ask(0);
  if (found) show(found);
}

async function alternatives() {
  if (!part("alternatives").hidden) return expand(false);
  const [source, target] = direction();
  const beam = beams[`${source === "auto" ? shown.answer.detectedLanguage?.language : source}-${target}`] || 1;
  const found = await ask(Math.min(MOST_ALTERNATIVES, beam - 1));
  if (!found) return;
  show(found);
  list(found.answer.sentences);
  expand(true);
}

function swap() {
  const option = reversed();
  if (!option) return;
  const text = part("result").textContent;
  option.selected = true;
  followDirection();
  if (text) {
    part("source").value = text;
    translate();
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(shown.answer.translatedText);
    part("status").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(part("result"));
    part("status").textContent = "The translation is selected. Copy it with the keyboard.";
  }
}

part("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
part("source").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
});
part("direction").addEventListener("change", followDirection);
part("swap").addEventListener("click", swap);
part("more").addEventListener("click", alternatives);
part("copy").addEventListener("click", copy);
start().catch(fail);
