/** Users: the list, the page of a user with permissions and limits, and the question what a user may do. */

import { List, api, facts, fill, form, h, may, path, short, show, tasks, whole } from "../toolkit.js";
import { limitsSection } from "./limits.js";
import { permissionForms, permissionTables } from "./permissions.js";
import { deleteAndReturn, deleteObjects, editColumn, editSection, folded, heading, link, listPage, nameField, replaced, section, vhostField } from "./widgets.js";

const TAGS = [
  ["administrator", "everything"], ["monitoring", "reads all virtual hosts, connections and nodes"],
  ["policymaker", "policies and parameters"],
  ["management", "what its permissions allow"], ["", "no access to these pages"],
];
const tagsOf = (user) => (Array.isArray(user.tags) ? user.tags : String(user.tags ?? "").split(",")).filter(Boolean);
const target = (user) => path`users/${user.name}`;

const remove = (users) => deleteObjects(users, {
  kind: "user", consequence: "Their permissions are deleted too, and their connections are closed.", describe: (one) => one.name, target,
});

const KEEP = ["keep", "the password that is set"];
const PASSWORDS = [["password", "Password"], ["hash", "Hash of a password"], ["none", "No password: cannot log in with one"]];

/** The form that adds a user or changes one; `existing` is the user to change, `latest` the form's option. */
function userForm(done, existing, latest) {
  const changed = existing !== undefined;
  const element = form({
    label: changed ? "Update this user" : "Add a user", submit: changed ? "Update user" : "Add user", keep: changed, latest,
    replaced: changed ? undefined : replaced("user", target),
    fields: [
      ...(changed ? [] : [{ name: "name", label: "Name", required: true }]),
      { name: "kind", label: "Log in with", type: "select", options: changed ? [KEEP, ...PASSWORDS] : PASSWORDS },
      { name: "password", label: "Password", type: "password", autocomplete: "new-password",
        help: "or the hash, as GET /api/auth/hash_password returns it" },
      { name: "again", label: "Password again", type: "password", autocomplete: "new-password" },
      { name: "tags", label: "Tags", value: existing ? tagsOf(existing).join(",") : "", help: "separated by commas" },
      h("div.offers", {}, h("span", {}, "Set tag:"), TAGS.map(([tag, title]) =>
        h("button.quick", { title, onclick: (event) => { event.target.form.elements.tags.value = tag; } }, tag || "none"))),
    ],
    async run({ name = existing?.name, kind, password, again, tags }) {
      if (kind === "password" && !password) throw new Error("the password is empty");
      if (kind === "password" && password !== again) throw new Error("the two passwords differ");
      const secret = { password: { password }, hash: { password_hash: password }, none: { password_hash: "" } }[kind] ?? await kept(name);
      await api.put(target({ name }), { ...secret, tags });
      tasks.say(`User ${name} is ${changed ? "changed" : "added"}.`);
      done();
    },
  });
  const { kind } = element.elements;
  const adapt = () => {
    show(element.querySelector("[data-field=password]"), ["password", "hash"].includes(kind.value));
    show(element.querySelector("[data-field=again]"), kind.value === "password");
  };
  kind.addEventListener("input", adapt);
  adapt();
  return element;
}

async function kept(name) {
  const { password_hash, hashing_algorithm } = await api.get(target({ name }));
  return { password_hash, hashing_algorithm };
}

const COLUMNS = [
  { id: "name", title: "Name", sort: "name", always: true, cell: (user) => link.user(user.name) },
  { id: "tags", title: "Tags", sort: "tags", cell: (user) => short(tagsOf(user).join(", ")) },
  { id: "vhosts", title: "Can access virtual hosts",
    cell: (user) => (user.vhosts.length ? short(user.vhosts.join(", ")) : h("span.waiting", {}, "no access")) },
  { id: "password", title: "Has password", cell: (user) => (user.password_hash ? "yes" : "no") },
  editColumn((user) => ["users", user.name]),
];

function createList(context) {
  const load = async (signal) => {
    const [users, permissions] = await Promise.all([api.get("users", {}, signal), api.get("permissions", {}, signal)]);
    const byUser = new Map(users.map((user) => [user.name, { ...user, vhosts: [] }]));
    for (const one of permissions) byUser.get(one.user)?.vhosts.push(one.vhost);
    return [...byUser.values()];
  };
  const table = new List({
    name: "users", label: "Users", columns: COLUMNS, key: (user) => user.name, load: whole(load), empty: "no users", sort: "name",
    actions: [{ label: "Delete", run: remove, danger: true }],
  });
  return listPage("Users", table, folded("Add a user", userForm(context.refresh)));
}

const OPERATIONS = [
  ["write", "publish to, or bind, an exchange; bind a queue (write)"], ["read", "consume from a queue; bind from an exchange (read)"],
  ["configure", "declare or delete (configure)"],
];

function questionBox(user, context) {
  const answer = h("p", { role: "status" });
  const element = form({
    label: "What may this user do?", submit: "Ask", keep: true, extra: [answer],
    fields: [
      vhostField(context),
      { name: "operation", label: `May ${user}`, type: "select", options: OPERATIONS },
      nameField({ name: "name", label: "Exchange or queue", help: "empty: the default exchange" },
        () => ({ vhost: element.elements.vhost.value, kind: element.elements.operation.value === "write" ? "exchange" : "queue" })),
      { name: "key", label: "Routing key", help: "counts for topic exchanges with topic permissions" },
    ],
    async run({ vhost, operation, name, key }) {
      fill(answer, "");
      const { allowed, reasons } = await api.get(path`warren/access/${vhost}/${user}`, { operation, name, routing_key: key });
      fill(answer, h(allowed ? "b.good" : "b.bad", {}, allowed ? "Yes: " : "No: "), reasons.join("; "), ".");
    },
  });
  return element;
}

function createUser(context) {
  const { name } = context.params;
  const load = (signal) => api.get(target({ name }), {}, signal);
  const details = h("div");
  const tables = permissionTables({ user: name }, context);
  const limits = limitsSection("user", name, context);
  const update = editSection("Update this user", context, load, (...given) => userForm(context.refresh, ...given));
  const element = h("div.page", {}, heading("User", name), section("Details", details),
    section("Permissions", tables.permissions.element, permissionForms.permission({ user: name }, context)),
    section("Topic permissions", tables.topics.element, permissionForms.topic({ user: name }, context)),
    section("What may this user do?", questionBox(name, context)), section("Limits", limits.element),
    update.element,
    folded("Delete this user", deleteAndReturn("Delete user", () => remove([{ name }]), "users")));
  const refresh = async (signal) => {
    const user = await load(signal);
    fill(details, facts([
      ["Tags", tagsOf(user).join(", ") || "none"], ["Can log in with a password", user.password_hash ? "yes" : "no"],
      ["Hashing", user.hashing_algorithm],
    ]));
    update.show(user);
    await Promise.all([tables.refresh(signal), limits.refresh(signal)]);
  };
  return { element, refresh };
}

export const usersPage = { route: "users", section: "admin", title: "Users", menu: "Users", may: may.administer, create: createList };
export const userPage = { route: "users/:name", section: "admin", title: "User", may: may.administer, create: createUser };
