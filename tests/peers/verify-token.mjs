// Has the reference implementation verify a service token:
//
//   node verify-token.mjs TOKEN AUDIENCE METHOD did:key:…
//
// Prints the token's claims as JSON; a token that is refused ends this with 1.
import { verifyJwt } from "@atproto/xrpc-server";

const [token, audience, method, key] = process.argv.slice(2);
const claims = await verifyJwt(token, audience, method, async () => key).catch((error) => {
  console.log(error.customErrorName ?? String(error));
  process.exit(1);
});
console.log(JSON.stringify(claims));
