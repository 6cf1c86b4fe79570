// Check that a delivery is from Lanehouse: Standard Webhooks, with Node's own crypto.
import { createHmac, timingSafeEqual } from "node:crypto";

const TOLERANCE_SECONDS = 300;

// headers: by lower-case name; body: the bytes as they came (a Buffer), before any parsing; secret: whsec_...
export const isOurs = (headers, body, secret) => {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_SECONDS)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const expected = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  // While a secret is being rotated there are two signatures; one that fits is enough.
  return headers["webhook-signature"].split(" ").some((each) => {
    const given = Buffer.from(each);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
};
