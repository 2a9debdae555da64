'use strict';
// Mirrors amqplib's test/connect.js and test/connection.js where they speak to a real broker.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { URL, amqp, connect, event, quiet } = require('./support');

const parts = new globalThis.URL(URL);

function address(changes = {}) {
  return {
    protocol: 'amqp', hostname: parts.hostname, port: Number(parts.port), username: 'guest', password: 'guest',
    vhost: '/', ...changes,
  };
}

test('connects by URL and by object, and closes', async () => {
  for (const target of [URL, address()]) {
    const connection = await amqp.connect(target);
    const closed = event(connection, 'close');
    await connection.close();
    await closed;
  }
});

for (const mechanism of ['plain', 'amqplain']) {
  test(`logs in with ${mechanism} credentials, and is refused with wrong ones`, async (t) => {
    const credentials = (password) => ({ credentials: amqp.credentials[mechanism]('guest', password) });
    await connect(t, { socket: credentials('guest') });
    await assert.rejects(connect(t, { socket: credentials('not it') }), /403 \(ACCESS-REFUSED\).*Login was refused/);
  });
}

// amqplib shows a refused connection.open as the method it did not expect.
test('refuses an unknown vhost', async (t) => {
  await assert.rejects(connect(t, { url: address({ vhost: 'nowhere' }) }), /ConnectionOpenOk; got <ConnectionClose/);
});

test('agrees on a small frame size and few channels', async (t) => {
  const connection = await connect(t, { url: address({ frameMax: 8192, channelMax: 4 }) });
  assert.equal(connection.connection.frameMax, 8192);
  const ch = await connection.createConfirmChannel();
  const { queue } = await ch.assertQueue('', { exclusive: true });
  const body = Buffer.alloc(100_000, 'x');
  ch.sendToQueue(queue, body);
  await ch.waitForConfirms();
  assert.deepEqual((await ch.get(queue, { noAck: true })).content, body);
});

test('tells of a connection error with its code', async (t) => {
  const connection = await connect(t);
  const failed = event(connection, 'error');
  const ch = quiet(await connection.createChannel());
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.consume(queue, () => {}, { consumerTag: 'mine' });
  ch.consume(queue, () => {}, { consumerTag: 'mine' }).catch(() => {});
  const error = await failed;
  assert.equal(error.code, 530);
  assert.match(error.message, /attempt to reuse consumer tag 'mine'/);
});
