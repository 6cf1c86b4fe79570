/* One pass over a JSONL file of requests, for rows of the common shapes; see rows.py, which calls it.

   Compiled to WebAssembly (`make pass`), so it runs in a memory of its own: whatever a customer's file holds, this
   code can reach nothing but the buffers it was given, and a mistake in it ends in a trap, which the caller answers by
   reading the file the plain way. It knows no row that it cannot judge to the last byte; all others it only counts.

   The caller puts a line feed and PADDING zeros behind the body. No loop needs the body's length: a line feed ends
   every string, number and blank. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define ID_BYTES 512
#define NAMES 64
#define PATTERNS 64
#define PROBES 64
#define ROLES 20
#define LIMIT_DIGITS 9
#define NUMBER_BYTES 17
#define DEPTH 16
#define MOST_CHOICES 128
#define EMBEDDED_BYTES 131072

enum { KNOWN = 1, PLAIN = 2, HAS_IMAGES = 4 };
enum { CHAT = 1, RESPONSES = 2, EMBEDDINGS = 4 };

typedef const uint8_t *Text;

/* Places are bytes from the body's beginning. A row that is not known has only offset, size and line. */
typedef struct {
  int32_t offset, size, line, flags, endpoint, model, id_start, id_size, limit, choices, message_count, span_first,
      span_count, pattern;
  int32_t tools_start, tools_size, shape_start, shape_size; /* as they stand there, for the caller to judge */
} Row;

/* What plain rows differ in for a provider: who speaks (three bits a message, the first in the lowest, and a one above
   the last) and the temperature, not a number where there is none. */
typedef struct {
  uint64_t roles;
  double temperature;
} Pattern;

/* A string between its quotes; an image's address, which is not weighed, has a sign of its detail in place of the
   escapes, which it may not have. Where an answer's shape is given, the row's last one is for the caller to fill: it
   begins at -1 as long as it is none. */
typedef struct {
  int32_t start;
  uint32_t size : 30, is_image : 1, has_escapes : 1;
} Span;

typedef struct {
  int32_t start, size;
} Name;

/* What the caller gives and is given. The buffers, their room and `seed` are its own; all counts begin at 0. */
typedef struct {
  Text body;
  Row *rows;
  Span *spans;
  uint32_t *ids; /* row + 1 by hash, 0 where there is none */
  uint32_t body_size, row_room, span_room, id_mask;
  uint32_t is_doubtful, row_count, span_count, name_count, pattern_count;
  /* for weighing: which rows, by which table, and two numbers for each */
  uint32_t which_count;
  const int32_t *which;
  const int16_t *weights;
  int64_t *sums;
  uint64_t seed;
  Name names[NAMES];
  Pattern patterns[PATTERNS];
} File;

static File the_file;

EXPORT("file") File *file_record(void) { return &the_file; }

/* ---- strings ------------------------------------------------------------------------------------------------- */

static Text past_blanks(Text at) {
  while (*at == ' ' || *at == '\t' || *at == '\r') at++;
  return at;
}

static int32_t hex_of(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Give four hexadecimal digits' value, or a negative one. */
static int32_t unit_at(Text at) {
  int32_t value = 0;
  for (int place = 0; place < 4; place++) {
    int32_t digit = hex_of(at[place]);
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* Give the character a \u escape stands for and how many bytes it takes, 0 where it is none. `at` is its backslash. */
static uint32_t escaped_character(Text at, uint32_t *character) {
  int32_t first = unit_at(at + 2);
  if (first < 0) return 0;
  *character = (uint32_t)first;
  if (first < 0xD800 || first > 0xDFFF) return 6;
  if (first > 0xDBFF || at[6] != '\\' || at[7] != 'u') return 0;
  int32_t second = unit_at(at + 8);
  if (second < 0xDC00 || second > 0xDFFF) return 0;
  *character = 0x10000 + (((uint32_t)first - 0xD800) << 10) + ((uint32_t)second - 0xDC00);
  return 12;
}

static Text past_escape(Text at) {
  uint32_t character;
  switch (at[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
      return at + 2;
    case 'u': {
      uint32_t size = escaped_character(at, &character);
      return size ? at + size : NULL;
    }
    default:
      return NULL;
  }
}

static bool continues(uint8_t c) { return (c & 0xC0) == 0x80; }

/* Pass one character beyond ASCII; NULL where it is no UTF-8 (RFC 3629: no overlong form, surrogate or beyond). */
static Text past_character(Text at) {
  uint8_t lead = at[0];
  if (lead >= 0xC2 && lead <= 0xDF) return continues(at[1]) ? at + 2 : NULL;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(at[1]) || !continues(at[2])) return NULL;
    if ((lead == 0xE0 && at[1] < 0xA0) || (lead == 0xED && at[1] > 0x9F)) return NULL;
    return at + 3;
  }
  if (lead < 0xF0 || lead > 0xF4 || !continues(at[1]) || !continues(at[2]) || !continues(at[3])) return NULL;
  if ((lead == 0xF0 && at[1] < 0x90) || (lead == 0xF4 && at[1] > 0x8F)) return NULL;
  return at + 4;
}

/* Mark which of 16 bytes a string does not just go on by: quotes, backslashes, controls and all beyond ASCII. */
static inline v128_t stops_at(Text at) {
  v128_t block = wasm_v128_load(at);
  /* as signed bytes, control characters and all beyond ASCII are less than a blank */
  return wasm_v128_or(wasm_v128_or(wasm_i8x16_eq(block, wasm_i8x16_splat('"')),
                                   wasm_i8x16_eq(block, wasm_i8x16_splat('\\'))),
                      wasm_i8x16_lt(block, wasm_i8x16_splat(' ')));
}

/* Give the quote that ends a string, whose first byte is at `at`, or NULL. */
static Text string_end(Text at, bool *has_escapes) {
  *has_escapes = false;
  for (;;) {
    v128_t stops = stops_at(at);
    if (!wasm_v128_any_true(stops)) {
      at += 16;
      continue;
    }
    at += __builtin_ctz(wasm_i8x16_bitmask(stops));
    if (*at == '"') return at;
    if (*at == '\\') {
      *has_escapes = true;
      at = past_escape(at);
    } else if (*at < ' ') {
      return NULL;
    } else {
      do at = past_character(at);
      while (at && *at >= 0x80);
    }
    if (!at) return NULL;
  }
}

/* Say whether a text begins with another one; eight bytes at a time, for a size that is known here leaves no loop. */
static inline __attribute__((always_inline)) bool same(Text at, const char *text, uint32_t size) {
  uint64_t mine, other;
  for (; size >= 8; size -= 8, at += 8, text += 8) {
    __builtin_memcpy(&mine, at, 8);
    __builtin_memcpy(&other, text, 8);
    if (mine != other) return false;
  }
  if (size & 4) {
    uint32_t half, other_half;
    __builtin_memcpy(&half, at, 4);
    __builtin_memcpy(&other_half, text, 4);
    if (half != other_half) return false;
    at += 4, text += 4;
  }
  for (size &= 3; size; size--)
    if (*at++ != (uint8_t)*text++) return false;
  return true;
}

#define IS(at, size, text) ((size) == sizeof(text) - 1 && same(at, text, sizeof(text) - 1))

/* Take a string without escapes that begins with a visible ASCII character; give the byte past it, or NULL. */
static Text past_name(Text at, Text *start, uint32_t *size) {
  bool has_escapes = false;
  if (*at != '"' || at[1] <= ' ' || at[1] >= 0x80) return NULL;
  /* nearly all end within the first 16 bytes */
  uint32_t stops = wasm_i8x16_bitmask(stops_at(at + 1));
  Text end = at + 1 + __builtin_ctz(stops | 1 << 16);
  if (*end != '"') end = string_end(at + 1, &has_escapes);
  if (!end || has_escapes) return NULL;
  *start = at + 1;
  *size = (uint32_t)(end - at) - 1;
  return *size ? end + 1 : NULL;
}

/* Take a name and its colon; give the first byte of its value. */
static Text past_key(Text at, Text *key, uint32_t *size) {
  at = past_name(at, key, size);
  if (!at) return NULL;
  at = past_blanks(at);
  return *at == ':' ? past_blanks(at + 1) : NULL;
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static Text past_count(Text at, int32_t *count) {
  Text first = at;
  int32_t value = 0;
  while (*at >= '0' && *at <= '9' && at - first < LIMIT_DIGITS) value = value * 10 + (*at++ - '0');
  *count = value;
  bool goes_on = (*at >= '0' && *at <= '9') || *at == '.' || *at == 'e' || *at == 'E';
  return at > first && *first != '0' && !goes_on ? at : NULL;
}

/* Take a decimal of at most 15 digits, of which one stands before the point: that quotient is its nearest double. */
static Text past_decimal(Text at, double *value) {
  double scale = 1;
  uint64_t digits;
  if (*at < '0' || *at > '9') return NULL;
  digits = (uint64_t)(*at++ - '0');
  if (*at == '.') {
    Text first = ++at;
    for (; *at >= '0' && *at <= '9' && at - first < 14; at++, scale *= 10) digits = digits * 10 + (uint64_t)(*at - '0');
    if (at == first) return NULL;
  }
  *value = (double)digits / scale;
  return (*at >= '0' && *at <= '9') || *at == 'e' || *at == 'E' || *at == '.' ? NULL : at;
}

static Text past_digits(Text at) {
  Text first = at;
  while (*at >= '0' && *at <= '9') at++;
  return at > first ? at : NULL;
}

/* Pass a number of no more digits than all readers agree about, without an exponent. */
static Text past_number(Text at, bool *is_whole) {
  Text first = at;
  if (*at == '-') at++;
  Text digits = at;
  at = past_digits(at);
  if (!at || (*digits == '0' && at > digits + 1)) return NULL;
  *is_whole = *at != '.';
  if (!*is_whole && !(at = past_digits(at + 1))) return NULL;
  return at - first > NUMBER_BYTES || *at == 'e' || *at == 'E' ? NULL : at;
}

/* ---- values that are passed on ------------------------------------------------------------------------------- */

static Text past_literal(Text at) {
  if (same(at, "true", 4) || same(at, "null", 4)) return at + 4;
  return same(at, "false", 5) ? at + 5 : NULL;
}

/* Pass any JSON value that is not nested deeper than `depth`. */
static Text past_value(Text at, uint32_t depth) {
  bool ignored;
  if (*at == '"') {
    Text end = string_end(at + 1, &ignored);
    return end ? end + 1 : NULL;
  }
  if (*at == '-' || (*at >= '0' && *at <= '9')) return past_number(at, &ignored);
  if (*at != '{' && *at != '[') return past_literal(at);
  if (!depth) return NULL;
  bool is_object = *at == '{';
  uint8_t closing = is_object ? '}' : ']';
  at = past_blanks(at + 1);
  if (*at == closing) return at + 1;
  for (;; at = past_blanks(at + 1)) {
    if (is_object) {
      if (*at != '"') return NULL;
      at = string_end(at + 1, &ignored);
      if (!at) return NULL;
      at = past_blanks(at + 1);
      if (*at != ':') return NULL;
      at = past_blanks(at + 1);
    }
    at = past_value(at, depth - 1);
    if (!at) return NULL;
    at = past_blanks(at);
    if (*at == closing) return at + 1;
    if (*at != ',') return NULL;
  }
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

static bool add_span(File *file, Text start, Text end, bool has_escapes) {
  if (file->span_count == file->span_room) return false;
  file->spans[file->span_count++] =
      (Span){.start = start - file->body, .size = (uint32_t)(end - start), .has_escapes = has_escapes};
  return true;
}

/* Take the object that holds an image's address, and maybe a detail; keep the address. */
static Text past_image(File *file, Text at) {
  enum { HAS_URL = 1, HAS_DETAIL = 2 };
  int seen = 0;
  Text start = NULL;
  uint32_t size = 0;
  bool is_low = false;
  if (*at++ != '{') return NULL;
  for (;;) {
    Text key, value;
    uint32_t key_size, value_size;
    at = past_key(past_blanks(at), &key, &key_size);
    if (!at) return NULL;
    if (IS(key, key_size, "url") && !(seen & HAS_URL)) {
      seen |= HAS_URL;
      at = past_name(at, &start, &size);
    } else if (IS(key, key_size, "detail") && !(seen & HAS_DETAIL)) {
      seen |= HAS_DETAIL;
      at = past_name(at, &value, &value_size);
      if (!at) return NULL;
      is_low = IS(value, value_size, "low");
      if (!is_low && !IS(value, value_size, "auto") && !IS(value, value_size, "high")) return NULL;
    } else {
      return NULL;
    }
    if (!at) return NULL;
    at = past_blanks(at);
    if (*at != ',') break;
    at++;
  }
  if (*at != '}' || !start) return NULL;
  if (!same(start, "https://", 8) && !same(start, "http://", 7) && !same(start, "data:image/", 11)) return NULL;
  if (!add_span(file, start, start + size, is_low)) return NULL;
  file->spans[file->span_count - 1].is_image = 1;
  return at + 1;
}

static int role_of(Text at, uint32_t size) {
  if (IS(at, size, "user")) return 1;
  if (IS(at, size, "assistant")) return 2;
  if (IS(at, size, "system")) return 3;
  if (IS(at, size, "developer")) return 4;
  if (IS(at, size, "tool")) return 5;
  if (IS(at, size, "function")) return 6;
  return 0;
}

enum { HAS_ROLE = 1, HAS_CONTENT = 2, HAS_TYPE = 4, HAS_IMAGE = 8 };

/* Read a content in parts that are texts and images. */
static Text past_parts(File *file, Row *row, Text at) {
  if (*at++ != '[') return NULL;
  for (;;) {
    int seen = 0;
    bool is_image = false;
    at = past_blanks(at);
    if (*at++ != '{') return NULL;
    for (;;) {
      Text key, value;
      uint32_t size, value_size;
      at = past_key(past_blanks(at), &key, &size);
      if (!at) return NULL;
      if (IS(key, size, "type") && !(seen & HAS_TYPE)) {
        seen |= HAS_TYPE;
        at = past_name(at, &value, &value_size);
        if (!at) return NULL;
        is_image = IS(value, value_size, "image_url");
        if (!is_image && !IS(value, value_size, "text")) return NULL;
      } else if (IS(key, size, "image_url") && !(seen & HAS_IMAGE)) {
        seen |= HAS_IMAGE;
        row->flags |= HAS_IMAGES;
        at = past_image(file, at);
        if (!at) return NULL;
      } else if (IS(key, size, "text") && !(seen & HAS_CONTENT) && *at == '"') {
        bool has_escapes;
        seen |= HAS_CONTENT;
        Text end = string_end(at + 1, &has_escapes);
        if (!end || !add_span(file, at + 1, end, has_escapes)) return NULL;
        at = end + 1;
      } else {
        return NULL;
      }
      at = past_blanks(at);
      if (*at != ',') break;
      at++;
    }
    if (*at != '}' || seen != (HAS_TYPE | (is_image ? HAS_IMAGE : HAS_CONTENT))) return NULL;
    at = past_blanks(at + 1);
    if (*at == ']') return at + 1;
    if (*at++ != ',') return NULL;
  }
}

/* Read one message: role and content, a string or parts; `type` where it may be. */
static Text past_message(File *file, Row *row, Text at, bool *has_type, bool *has_parts, int *role, bool *is_text) {
  int seen = 0;
  if (*at++ != '{') return NULL;
  for (;;) {
    Text key, value;
    uint32_t size, value_size;
    at = past_key(past_blanks(at), &key, &size);
    if (!at) return NULL;
    if (IS(key, size, "role")) {
      if (seen & HAS_ROLE) return NULL;
      seen |= HAS_ROLE;
      at = past_name(at, &value, &value_size);
      if (!at || !(*role = role_of(value, value_size))) return NULL;
    } else if (IS(key, size, "content")) {
      bool has_escapes;
      if (seen & HAS_CONTENT) return NULL;
      seen |= HAS_CONTENT;
      if (*at == '"') {
        Text end = string_end(at + 1, &has_escapes);
        if (!end || !add_span(file, at + 1, end, has_escapes)) return NULL;
        *is_text &= at[1] > ' ' && at[1] != '"' && at[1] != '\\';
        at = end + 1;
      } else {
        *has_parts = true;
        at = past_parts(file, row, at);
        if (!at) return NULL;
      }
    } else if (IS(key, size, "type")) {
      if (seen & HAS_TYPE) return NULL;
      seen |= HAS_TYPE;
      *has_type = true;
      at = past_name(at, &value, &value_size);
      if (!at || !IS(value, value_size, "message")) return NULL;
    } else {
      return NULL;
    }
    at = past_blanks(at);
    if (*at == ',') {
      at++;
    } else {
      return *at == '}' && (seen & (HAS_ROLE | HAS_CONTENT)) == (HAS_ROLE | HAS_CONTENT) ? at + 1 : NULL;
    }
  }
}

static Text past_messages(File *file, Row *row, Text at, bool *has_type, bool *has_parts, bool *is_text,
                          uint64_t *all_roles) {
  uint64_t roles = 0;
  if (*at++ != '[') return NULL;
  for (;;) {
    int role = 0;
    at = past_message(file, row, past_blanks(at), has_type, has_parts, &role, is_text);
    if (!at) return NULL;
    if (row->message_count < ROLES) roles |= (uint64_t)role << 3 * row->message_count;
    row->message_count++;
    at = past_blanks(at);
    if (*at == ',') {
      at++;
    } else if (*at == ']') {
      *all_roles = row->message_count <= ROLES ? roles | 1ull << 3 * row->message_count : 0;
      return at + 1;
    } else {
      return NULL;
    }
  }
}

static int32_t name_index(File *file, Text at, uint32_t size) {
  for (uint32_t index = 0; index < file->name_count; index++) {
    Name *name = &file->names[index];
    if ((uint32_t)name->size == size) {
      Text known = file->body + name->start;
      uint32_t place = 0;
      while (place < size && known[place] == at[place]) place++;
      if (place == size) return (int32_t)index;
    }
  }
  if (file->name_count == NAMES) return -1;
  file->names[file->name_count] = (Name){.start = at - file->body, .size = (int32_t)size};
  return (int32_t)file->name_count++;
}

/* What a parameter's value must be. All but the first five may be null. */
enum {
  MODEL, MESSAGES, INPUT, INSTRUCTIONS, TOOLS, SHAPE, LIMIT, TEMPERATURE, SHARE, CHOICES, OFF, WHOLE, NUMBER, ANY
};

enum { ALL = CHAT | RESPONSES | EMBEDDINGS, ANSWERS = CHAT | RESPONSES };

#define PARAMETER(name, kind, endpoints, is_plain) {name, sizeof(name) - 1, kind, endpoints, is_plain}

/* All that a known row may hold, the likeliest first; at most 32, for each is a bit. */
static const struct {
  const char *name;
  uint8_t size, kind, endpoints;
  bool is_plain;
} parameters[] = {
    PARAMETER("model", MODEL, ALL, true),
    PARAMETER("messages", MESSAGES, CHAT, true),
    PARAMETER("max_tokens", LIMIT, CHAT, true),
    PARAMETER("temperature", TEMPERATURE, ANSWERS, true),
    PARAMETER("input", INPUT, RESPONSES | EMBEDDINGS, false),
    PARAMETER("instructions", INSTRUCTIONS, RESPONSES, false),
    PARAMETER("max_completion_tokens", LIMIT, CHAT, true),
    PARAMETER("max_output_tokens", LIMIT, RESPONSES, false),
    PARAMETER("response_format", SHAPE, CHAT, false),
    PARAMETER("text", SHAPE, RESPONSES, false),
    PARAMETER("tools", TOOLS, ANSWERS, false),
    PARAMETER("tool_choice", ANY, ANSWERS, false),
    PARAMETER("parallel_tool_calls", ANY, ANSWERS, false),
    PARAMETER("top_p", SHARE, ANSWERS, false),
    PARAMETER("n", CHOICES, CHAT, false),
    PARAMETER("seed", WHOLE, CHAT, false),
    PARAMETER("stop", ANY, CHAT, false),
    PARAMETER("user", ANY, ALL, false),
    PARAMETER("metadata", ANY, ALL, false),
    PARAMETER("store", ANY, ALL, false),
    PARAMETER("service_tier", ANY, ALL, false),
    PARAMETER("stream", OFF, ANSWERS, false),
    PARAMETER("presence_penalty", NUMBER, CHAT, false),
    PARAMETER("frequency_penalty", NUMBER, CHAT, false),
    PARAMETER("reasoning_effort", ANY, CHAT, false),
    PARAMETER("reasoning", ANY, RESPONSES, false),
    PARAMETER("logprobs", ANY, CHAT, false),
    PARAMETER("top_logprobs", ANY, CHAT, false),
    PARAMETER("dimensions", ANY, EMBEDDINGS, false),
    PARAMETER("encoding_format", ANY, EMBEDDINGS, false),
};

#define PARAMETER_COUNT (sizeof(parameters) / sizeof(parameters[0]))

static uint32_t parameter_index(Text at, uint32_t size) {
  for (uint32_t index = 0; index < PARAMETER_COUNT; index++)
    if (parameters[index].size == size && same(at, parameters[index].name, size)) return index;
  return PARAMETER_COUNT;
}

/* What a body turned out to hold. */
typedef struct {
  uint32_t endpoints; /* that take all of it */
  bool has_model, has_input, is_plain;
  Text note, note_end;
  bool note_has_escapes;
  Pattern pattern;
} Body;

static Text past_turns(File *file, Row *row, Body *body, Text at) {
  bool has_type = false, has_parts = false;
  at = past_messages(file, row, at, &has_type, &has_parts, &body->is_plain, &body->pattern.roles);
  if (has_type) body->endpoints &= RESPONSES;
  /* in responses, parts have other types */
  if (has_parts) body->endpoints &= CHAT, body->is_plain = false;
  return at;
}

/* Read the value of a parameter that is not null. */
static Text past_parameter(File *file, Row *row, Body *body, int kind, Text at) {
  bool is_whole = true;
  switch (kind) {
    case MODEL: {
      Text start;
      uint32_t size;
      at = past_name(at, &start, &size);
      if (!at) return NULL;
      body->has_model = true;
      row->model = name_index(file, start, size);
      return row->model < 0 ? NULL : at;
    }
    case MESSAGES:
      body->has_input = true;
      return past_turns(file, row, body, at);
    case INPUT:
      body->has_input = true;
      if (*at == '"') {
        bool has_escapes;
        Text end = string_end(at + 1, &has_escapes);
        if (!end || !add_span(file, at + 1, end, has_escapes)) return NULL;
        row->message_count = 1;
        return end + 1;
      }
      body->endpoints &= RESPONSES;
      return past_turns(file, row, body, at);
    case INSTRUCTIONS:
      if (*at != '"') return NULL;
      body->note = at + 1;
      body->note_end = string_end(body->note, &body->note_has_escapes);
      return body->note_end ? body->note_end + 1 : NULL;
    case TOOLS: case SHAPE: {
      Text end = past_value(at, DEPTH);
      if (!end) return NULL;
      int32_t start = at - file->body, size = (int32_t)(end - at);
      if (kind == TOOLS) row->tools_start = start, row->tools_size = size;
      else row->shape_start = start, row->shape_size = size;
      return end;
    }
    case LIMIT:
      return row->limit ? NULL : past_count(at, &row->limit);
    case CHOICES:
      at = past_count(at, &row->choices);
      return row->choices > MOST_CHOICES ? NULL : at;
    case TEMPERATURE:
      at = past_decimal(at, &body->pattern.temperature);
      return body->pattern.temperature > 2 ? NULL : at;
    case SHARE: {
      double share = 0;
      at = past_decimal(at, &share);
      return share > 1 ? NULL : at;
    }
    case OFF:
      return same(at, "false", 5) ? at + 5 : NULL;
    case WHOLE: case NUMBER:
      at = past_number(at, &is_whole);
      return kind == WHOLE && !is_whole ? NULL : at;
    default:
      return past_value(at, DEPTH);
  }
}

static Text past_body(File *file, Row *row, Body *body, Text at) {
  uint32_t seen = 0;
  *body = (Body){.endpoints = ALL, .is_plain = true, .pattern = {.temperature = __builtin_nan("")}};
  if (*at++ != '{') return NULL;
  for (;;) {
    Text key;
    uint32_t size;
    at = past_key(past_blanks(at), &key, &size);
    if (!at) return NULL;
    uint32_t index = parameter_index(key, size);
    if (index == PARAMETER_COUNT || seen & 1u << index) return NULL;
    seen |= 1u << index;
    body->endpoints &= parameters[index].endpoints;
    body->is_plain &= parameters[index].is_plain;
    bool is_null = parameters[index].kind > SHAPE && same(at, "null", 4);
    at = is_null ? at + 4 : past_parameter(file, row, body, parameters[index].kind, at);
    if (!at) return NULL;
    at = past_blanks(at);
    if (*at != ',') break;
    at++;
  }
  if (*at != '}' || !body->has_model || !body->has_input) return NULL;
  if (body->note) {
    if (!add_span(file, body->note, body->note_end, body->note_has_escapes)) return NULL;
    row->message_count++;
  }
  if (row->shape_size && !add_span(file, file->body - 1, file->body - 1, false)) return NULL;
  return at + 1;
}

static int endpoint_of(Text at, uint32_t size) {
  if (IS(at, size, "/v1/chat/completions")) return CHAT;
  if (IS(at, size, "/v1/responses")) return RESPONSES;
  if (IS(at, size, "/v1/embeddings")) return EMBEDDINGS;
  return -1;
}

/* Give the place of a pattern among those of the file, or -1 where there are too many. */
static int32_t pattern_index(File *file, const Pattern *pattern) {
  for (uint32_t index = 0; index < file->pattern_count; index++) {
    const Pattern *known = &file->patterns[index];
    bool both_unset = known->temperature != known->temperature && pattern->temperature != pattern->temperature;
    if (known->roles == pattern->roles && (both_unset || known->temperature == pattern->temperature))
      return (int32_t)index;
  }
  if (file->pattern_count == PATTERNS) return -1;
  file->patterns[file->pattern_count] = *pattern;
  return (int32_t)file->pattern_count++;
}

enum { HAS_ID = 1, HAS_METHOD = 2, HAS_URL = 4, HAS_BODY = 8 };

/* Read a row; give the line feed that ends it, or NULL where it is not known. */
static Text past_row(File *file, Row *row, Text at) {
  int seen = 0;
  Body body;
  if (*at++ != '{') return NULL;
  for (;;) {
    Text key, value;
    uint32_t size, value_size;
    int has;
    at = past_key(past_blanks(at), &key, &size);
    if (!at) return NULL;
    if (IS(key, size, "body")) {
      has = HAS_BODY;
      if (seen & has) return NULL;
      at = past_body(file, row, &body, at);
      if (!at) return NULL;
    } else {
      has = IS(key, size, "custom_id") ? HAS_ID : IS(key, size, "method") ? HAS_METHOD : 0;
      if (IS(key, size, "url")) has = HAS_URL;
      if (!has || seen & has) return NULL;
      at = past_name(at, &value, &value_size);
      if (!at) return NULL;
      if (has == HAS_METHOD) {
        if (!IS(value, value_size, "POST")) return NULL;
      } else if (has == HAS_URL) {
        row->endpoint = endpoint_of(value, value_size);
        if (row->endpoint < 0) return NULL;
      } else {
        if (value_size > ID_BYTES) return NULL;
        row->id_start = value - file->body;
        row->id_size = (int32_t)value_size;
      }
    }
    seen |= has;
    at = past_blanks(at);
    if (*at != ',') break;
    at++;
  }
  if (*at != '}' || seen != (HAS_ID | HAS_METHOD | HAS_URL | HAS_BODY)) return NULL;
  at = past_blanks(at + 1);
  if (*at != '\n' || !(body.endpoints & (uint32_t)row->endpoint)) return NULL;
  if (row->endpoint == EMBEDDINGS) {
    Span text = file->spans[row->span_first];
    if (!text.size || text.size > EMBEDDED_BYTES - 2) return NULL;
    row->message_count = 0;
  }
  row->flags |= KNOWN;
  if (row->endpoint == CHAT && body.is_plain && body.pattern.roles) {
    row->pattern = pattern_index(file, &body.pattern);
    if (row->pattern >= 0) row->flags |= PLAIN;
  }
  return at;
}

static Text line_end(Text at) {
  const v128_t feeds = wasm_i8x16_splat('\n');
  for (;; at += 16) {
    v128_t found = wasm_i8x16_eq(wasm_v128_load(at), feeds);
    if (wasm_v128_any_true(found)) return at + __builtin_ctz(wasm_i8x16_bitmask(found));
  }
}

static uint64_t hash_of(Text at, uint32_t size, uint64_t seed) {
  uint64_t hash = seed ^ size;
  for (uint32_t place = 0; place < size; place++) hash = (hash ^ at[place]) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

/* Keep a row's custom_id; false where it stands twice, or where so many fall together that looking would take long. */
static bool keep_id(File *file, uint32_t index) {
  Row *row = &file->rows[index];
  Text id = file->body + row->id_start;
  uint64_t hash = hash_of(id, (uint32_t)row->id_size, file->seed);
  for (uint32_t probe = 0; probe < PROBES; probe++) {
    uint32_t *entry = &file->ids[(hash + probe) & file->id_mask];
    if (!*entry) {
      *entry = index + 1;
      return true;
    }
    Row *other = &file->rows[*entry - 1];
    if (other->id_size == row->id_size) {
      Text known = file->body + other->id_start;
      int32_t place = 0;
      while (place < row->id_size && known[place] == id[place]) place++;
      if (place == row->id_size) return false;
    }
  }
  return false;
}

/* Read the rows of the body; lines that are blank are no rows. It is doubtful where an id may stand twice, or where
   there was no room. */
EXPORT("read_rows") void read_rows(void) {
  File *file = &the_file;
  Text end = file->body + file->body_size, at = file->body;
  file->is_doubtful = 1;
  if (file->body_size >= 3 && same(at, "\xef\xbb\xbf", 3)) at += 3;
  for (int32_t line = 1; at < end; line++) {
    Text first = past_blanks(at);
    if (*first == '\n') {
      at = first + 1;
      continue;
    }
    if (file->row_count == file->row_room) return;
    uint32_t index = file->row_count++, span_first = file->span_count;
    Row *row = &file->rows[index];
    const Row unread = {.offset = at - file->body, .line = line, .choices = 1, .span_first = (int32_t)span_first};
    *row = unread;
    Text stop = past_row(file, row, at);
    if (stop) {
      row->span_count = (int32_t)(file->span_count - span_first);
      if (!keep_id(file, index)) return;
    } else {
      *row = unread;
      file->span_count = span_first;
      stop = line_end(at);
    }
    row->size = (int32_t)(stop - at) - (stop > at && stop[-1] == '\r');
    at = stop + 1;
  }
  file->is_doubtful = 0;
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

typedef struct {
  const int16_t *weights; /* by first byte + 256 x second byte */
  int64_t sum, text_bytes;
  uint32_t last; /* the byte before */
} Sum;

static inline void add_byte(Sum *sum, uint32_t byte) {
  sum->sum += sum->weights[sum->last | byte << 8];
  sum->last = byte;
}

static void add_plain(Sum *sum, Text at, uint32_t size) {
  sum->text_bytes += size;
  const int16_t *weights = sum->weights;
  int64_t left = 0, right = 0;
  for (; size >= 8; size -= 8, at += 8) {
    uint64_t word;
    __builtin_memcpy(&word, at, 8);
    left += weights[sum->last | (word & 0xFF) << 8] + weights[word & 0xFFFF];
    right += weights[word >> 8 & 0xFFFF] + weights[word >> 16 & 0xFFFF];
    left += weights[word >> 24 & 0xFFFF] + weights[word >> 32 & 0xFFFF];
    right += weights[word >> 40 & 0xFFFF] + weights[word >> 48];
    sum->last = (uint32_t)(word >> 56);
  }
  sum->sum += left + right;
  for (; size; size--) add_byte(sum, *at++);
}

static void add_character(Sum *sum, uint32_t character) {
  if (character < 0x80) {
    bool has_letter = character == '"' || character == '\\' || (character >= 8 && character <= 13 && character != 11);
    if (has_letter) add_byte(sum, 0);
    add_byte(sum, character);
    sum->text_bytes++;
    return;
  }
  uint8_t bytes[4];
  uint32_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (uint32_t place = size; --place;) {
    bytes[place] = 0x80 | (character & 0x3F);
    character >>= 6;
  }
  bytes[0] = (uint8_t)((0xF00 >> size) | character);
  for (uint32_t place = 0; place < size; place++) add_byte(sum, bytes[place]);
  sum->text_bytes += size;
}

static uint8_t letter_byte(uint8_t letter) {
  switch (letter) {
    case 'b': return 8;
    case 'f': return 12;
    case 'n': return 10;
    case 'r': return 13;
    case 't': return 9;
    default: return letter;
  }
}

static void add_escaped(Sum *sum, Text at, uint32_t size) {
  const v128_t backslashes = wasm_i8x16_splat('\\');
  Text end = at + size;
  while (at < end) {
    Text first = at;
    for (; at < end; at += 16) {
      v128_t found = wasm_i8x16_eq(wasm_v128_load(at), backslashes);
      if (wasm_v128_any_true(found)) {
        at += __builtin_ctz(wasm_i8x16_bitmask(found));
        break;
      }
    }
    if (at > end) at = end;
    add_plain(sum, first, (uint32_t)(at - first));
    if (at == end) return;
    if (at[1] == 'u') {
      uint32_t character = 0, taken = escaped_character(at, &character);
      add_character(sum, character);
      at += taken;
    } else {
      if (at[1] != '/') add_byte(sum, 0);
      add_byte(sum, letter_byte(at[1]));
      sum->text_bytes++;
      at += 2;
    }
  }
}

/* Weigh the strings of known rows: tokens x 8,192 and the bytes of their text, two numbers a row. */
EXPORT("weigh_rows") void weigh_rows(void) {
  const File *file = &the_file;
  for (uint32_t index = 0; index < file->which_count; index++) {
    const Row *row = &file->rows[file->which[index]];
    Sum sum = {.weights = file->weights};
    for (int32_t span = row->span_first; span < row->span_first + row->span_count; span++) {
      const Span *text = &file->spans[span];
      if (text->start < 0 || text->is_image) continue;
      add_byte(&sum, 0);
      (text->has_escapes ? add_escaped : add_plain)(&sum, file->body + text->start, text->size);
      add_byte(&sum, 0);
    }
    file->sums[2 * index] = sum.sum;
    file->sums[2 * index + 1] = sum.text_bytes;
  }
}
