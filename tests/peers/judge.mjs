// Judges webhooks with libraries of others: one JSON object a line on stdin, one verdict a line on stdout.
//
//   {"kind":"discord","body":{…}}                          the schema made of Discord's description of its interface
//   {"kind":"standard","secret":"whsec_…","headers":{…},"body":"…"}   the library of Standard Webhooks
//
// A verdict is {"ok":true} or {"ok":false,"why":"…"}.
import { createInterface } from 'node:readline'
import * as discord from 'discord-api-spec/zod'
import { Webhook } from 'standardwebhooks'

const judges = {
  discord({ body }) {
    const result = discord.IncomingWebhookRequestPartialSchema.safeParse(body)
    if (!result.success) throw new Error(JSON.stringify(result.error.issues).slice(0, 500))
    // not in the schema: https://docs.discord.com/developers/resources/message#embed-object-embed-limits
    const texts = (body.embeds ?? []).flatMap((e) => [e.title, e.description, ...(e.fields ?? []).flatMap((f) => [f.name, f.value])])
    const total = texts.reduce((sum, text) => sum + (text?.length ?? 0), 0)
    if (total > 6000) throw new Error(`embeds have ${total} characters, more than 6000`)
    if (!body.content && !body.embeds?.length) throw new Error('a message needs content or embeds')
  },
  standard({ secret, headers, body }) {
    new Webhook(secret).verify(body, headers)
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  let verdict = { ok: true }
  try {
    judges[asked.kind](asked)
  } catch (error) {
    verdict = { ok: false, why: String(error.message ?? error) }
  }
  console.log(JSON.stringify(verdict))
}
