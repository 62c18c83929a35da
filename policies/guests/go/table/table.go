// Package table reads a configuration that is a table: the name of an attribute, and a number for each of its values.
//
//	attribute tier
//	gold 1
//	* 4
//
// The number beside * is for all other values. Lines that begin with # are for people.
package table

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	numberDigitsMax = 6
	others          = "*"
)

// Table is such a configuration.
type Table struct {
	Attribute string
	numbers   map[string]int
}

// Parse reads a table. other is asked about each line below the first, and says whether it took it; it may be nil.
func Parse(text string, other func(words []string) (taken bool, err error)) (Table, error) {
	t := Table{numbers: map[string]int{}}
	for line := range strings.SplitSeq(text, "\n") {
		words := Words(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := t.read(words, other); err != nil {
			return t, fmt.Errorf("%s: %w", line, err)
		}
	}
	if t.Attribute == "" {
		return t, fmt.Errorf("the configuration begins with: attribute NAME")
	}
	return t, nil
}

func (t *Table) read(words []string, other func([]string) (bool, error)) error {
	if t.Attribute == "" {
		if words[0] != "attribute" || len(words) != 2 {
			return fmt.Errorf("not: attribute NAME")
		}
		t.Attribute = words[1]
		return nil
	}
	if other != nil {
		if taken, err := other(words); taken || err != nil {
			return err
		}
	}
	if len(words) != 2 {
		return fmt.Errorf("not: VALUE NUMBER")
	}
	n, err := Number(words[1])
	if _, there := t.numbers[words[0]]; !there {
		t.numbers[words[0]] = n
	}
	return err
}

// Words are those of a line.
func Words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' })
}

// Number reads a number of up to six digits.
func Number(word string) (int, error) {
	if len(word) == 0 || len(word) > numberDigitsMax || strings.Trim(word, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no number of up to %d digits", word, numberDigitsMax)
	}
	return strconv.Atoi(word)
}

// Find returns the number beside a value, or the one beside *.
func (t *Table) Find(value string) (number int, there bool) {
	if number, there = t.numbers[value]; there {
		return number, true
	}
	number, there = t.numbers[others]
	return number, there
}
