// A configuration that is lines of words, and one that is a table: the name of an attribute, and a number for each of its values.
import { attribute, config, log } from "./permitd";

const NUMBER_DIGITS_MAX: i32 = 6;

// The words of a line.
export function words(line: string): string[] {
  return line.replaceAll("\t", " ").replaceAll("\r", " ").split(" ").filter((word) => word.length > 0);
}

// The lines of the configuration that are not empty and not for people.
export function lines(): string[] {
  return config().split("\n").filter((line) => {
    const all = words(line);
    return all.length > 0 && !all[0].startsWith("#");
  });
}

// A number of up to six digits, or -1.
export function number(word: string): i64 {
  if (word.length == 0 || word.length > NUMBER_DIGITS_MAX) return -1;
  let n: i64 = 0;
  for (let i = 0; i < word.length; i++) {
    const digit = word.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return -1;
    n = 10 * n + digit;
  }
  return n;
}

// Refuses a configuration for a line.
export function wrong(line: string): i32 {
  log(3, line);
  return 1;
}

export class Table {
  name: string = "";
  numbers: Map<string, i64> = new Map();

  // Reads the configuration; the answer is configure's. other is asked about each line below the first: 1 if it takes it, 0 if not, -1
  // if the line is wrong.
  load(other: (words: string[]) => i32): i32 {
    const all = lines();
    for (let i = 0; i < all.length; i++) {
      const row = words(all[i]);
      if (i == 0) {
        if (row.length != 2 || row[0] != "attribute") return wrong(all[i]);
        this.name = row[1];
        continue;
      }
      const taken = other(row);
      if (taken < 0) return wrong(all[i]);
      if (taken > 0) continue;
      const n = row.length == 2 ? number(row[1]) : -1;
      if (n < 0) return wrong(all[i]);
      if (!this.numbers.has(row[0])) this.numbers.set(row[0], n);
    }
    return this.name == "" ? wrong("the configuration begins with: attribute NAME") : 0;
  }

  // The number beside the request's value, or beside *, or -1.
  find(): i64 {
    const value = attribute(this.name);
    if (value !== null && this.numbers.has(value)) return this.numbers.get(value);
    return this.numbers.has("*") ? this.numbers.get("*") : -1;
  }
}
