// Talking to the service. The token lives in this tab only and travels in a header, never in a cookie.

const KEY = "sihash-token";
let isOffline = false;
const watchers = { offline: [], token: [] };

export class ServiceError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
    watchers.token.forEach((tell) => tell(value));
  },
  watch: (tell) => watchers.token.push(tell),
};

/** A link of `sihash serve` carries the token after the #, which no browser sends anywhere. */
export function takeTokenFromAddress() {
  const found = location.hash.match(/^#token=([\w-]+)$/);
  if (!found) return;
  token.set(found[1]);
  history.replaceState(null, "", location.pathname);
}

export const watchOffline = (tell) => watchers.offline.push(tell);

function setOffline(value) {
  if (value === isOffline) return;
  isOffline = value;
  watchers.offline.forEach((tell) => tell(value));
  if (value) waitForReturn();
}

async function waitForReturn() {
  while (isOffline) {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    try {
      const answer = await fetch("/v1/health", { cache: "no-store" });
      if (answer.ok) setOffline(false);
    } catch { /* still away */ }
  }
}

/** A request; throws a ServiceError with the sentence of the service. */
export async function request(method, path, { query = {}, body, json, signal } = {}) {
  const address = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined && one !== null) address.searchParams.append(name, one);
  }
  const headers = {};
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (json !== undefined) headers["content-type"] = "application/json";
  else if (body) headers["content-type"] = body.type || "application/octet-stream";
  let answer;
  try {
    answer = await fetch(address, { method, headers, signal, body: json === undefined ? body : JSON.stringify(json) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    setOffline(true);
    throw new ServiceError(0, "The service does not answer.");
  }
  setOffline(false);
  if (!answer.ok) throw new ServiceError(answer.status, await sentence(answer));
  return answer;
}

async function sentence(answer) {
  try {
    return (await answer.json()).detail;
  } catch {
    return `The service answered with an error (${answer.status}).`;
  }
}

/** The address of an item: an id may hold any character. */
export const itemPath = (id) => `/v1/items/${encodeURIComponent(id)}`;

export const get = async (path, query, signal) => (await request("GET", path, { query, signal })).json();
export const post = async (path, options) => (await request("POST", path, options)).json();
export const remove = async (path, query) => (await request("DELETE", path, { query })).json();

/** Server-sent events by fetch, as an EventSource cannot carry the token. Comes back after every break. */
export async function follow(path, onData) {
  for (;;) {
    try {
      const answer = await request("GET", path);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) {
          const data = event.split("\n").find((line) => line.startsWith("data: "));
          if (data) onData(JSON.parse(data.slice(6)));
        }
      }
    } catch (error) {
      if (!(error instanceof ServiceError)) setOffline(true); // the stream broke off
    }
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}
