package redisnode

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/permitd/permitd/engine"
)

//go:embed scripts
var scriptFiles embed.FS

// script is the text of an operation as it is loaded into a server, and the name by which it is called there.
type script struct {
	text string
	sha  string
}

// scripts has a script for each operation. A server that does not know the first line of a script, "#!lua", gets them
// without: that is miniredis, in simulations.
var scripts, bareScripts = assemble()

// operations are those that have a script.
var operations = []engine.Op{
	&engine.Claim{}, &engine.Mend{}, &engine.Renew{}, &engine.Release{}, &engine.Attach{}, &engine.Line{}, &engine.Find{},
	&engine.View{}, &engine.Names{}, &engine.Prepare{}, &engine.Accept{}, &engine.Peek{}, &engine.Drop{}, &engine.Freeze{},
	&engine.Load{}, &engine.Commit{}, &engine.Mark{}, &engine.Suspend{}, &engine.Note{}, &engine.Read{},
	&engine.PutBlob{}, &engine.GetBlob{}, &engine.DropBlob{}, &engine.Blobs{},
}

// readFrozen is the script of a Read that names a token: it needs no matching header.
const readFrozen = "read_frozen"

// assemble puts before each script the pieces of the prelude that its header names after "with". Each piece costs time at every
// call, so a script has only those that it uses. One with a line "in turn" executes several operations in a call, its own and those
// that come "with" it; see turn.lua. The files are part of the program: one that is wrong is a bug.
func assemble() (whole, bare map[string]script) {
	whole, bare = map[string]script{}, map[string]script{}
	names := []string{readFrozen}
	for _, op := range operations {
		names = append(names, engine.OpName(op))
	}
	for _, name := range names {
		body := readScript(name + ".lua")
		with, ok := headerLine(body, "with")
		shebang, rest, _ := strings.Cut(body, "\n")
		if !ok || !strings.HasPrefix(shebang, "#!lua") {
			panic(fmt.Sprintf("redisnode: script %s names no prelude", name))
		}
		var text strings.Builder
		for piece := range strings.FieldsSeq(with) {
			text.WriteString(readScript(path.Join("prelude", piece+".lua")))
		}
		if others, ok := headerLine(body, "in turn"); ok {
			text.WriteString("local turns = {}\n")
			for _, operation := range append(strings.Fields(strings.TrimPrefix(others, "with")), name) {
				_, body, _ := strings.Cut(readScript(operation+".lua"), "\n")
				fmt.Fprintf(&text, "function turns.%s(...)\n%send\n", operation, body)
			}
			rest = readScript("turn.lua")
		}
		text.WriteString(rest)
		whole[name] = newScript(shebang + "\n" + text.String())
		bare[name] = newScript(text.String())
	}
	return whole, bare
}

// headerLine returns what comes after the word that a line of a script's header begins with.
func headerLine(script, word string) (rest string, ok bool) {
	_, rest, ok = strings.Cut(script, "\n-- "+word)
	rest, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSpace(rest), ok
}

func readScript(name string) string {
	text, err := scriptFiles.ReadFile(path.Join("scripts", name))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}
