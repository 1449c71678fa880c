'use strict';
// versions.js: the branches of a conversation. Where a message was edited or answered again, the first message of each branch
// stands at the same place; the one that is shown has `versions`, all branches as lists of messages with null for its own,
// and `version`, which of them it is. A branch may have branches of its own further on.

const versionsOf = m => m.versions ?? [null];

// Takes the messages from `at` on away as a branch; returns what the first message of a new one has to carry.
function setAside(messages, at) {
  const tail = messages.splice(at), versions = versionsOf(tail[0]);
  versions[tail[0].version ?? 0] = tail;
  delete tail[0].versions;
  delete tail[0].version;
  return { versions: [...versions, null], version: versions.length };
}

function showVersion(messages, at, which) {
  const tail = messages.splice(at), { versions, version } = tail[0];
  const shown = versions[which];
  delete tail[0].versions;
  delete tail[0].version;
  versions[version] = tail;
  versions[which] = null;
  Object.assign(shown[0], { versions, version: which });
  for (const m of shown) if (m.state === 'streaming') m.state = 'stopped';
  messages.push(...shown);
}

// Removes the branch that begins at `at`; the nearest other one is shown. False: there is no other one.
function dropVersion(messages, at) {
  const { versions, version } = messages[at];
  if (!versions) return false;
  const which = version > 0 ? version - 1 : 1;
  showVersion(messages, at, which);
  const m = messages[at];
  m.versions.splice(version, 1);
  if (m.version > version) m.version--;
  if (m.versions.length === 1) {
    delete m.versions;
    delete m.version;
  }
  return true;
}

// All messages of a conversation, those of branches that are not shown as well.
function* everyMessage(messages) {
  for (const m of messages) {
    yield m;
    for (const branch of m.versions ?? []) if (branch) yield* everyMessage(branch);
  }
}
