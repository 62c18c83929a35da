package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/permitd/permitd"

// listed is a package as go list tells of it; tests are left out.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports, Deps   []string
}

func packages(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p
	}
}

// A request goes server, engine, node, and imports go the same way.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	const (
		echo, websocket = "github.com/labstack/echo", "github.com/gorilla/websocket"
		wasm, redis     = "github.com/tetratelabs/wazero", "github.com/redis/go-redis"
		metrics, bolt   = "github.com/prometheus/client_golang", "go.etcd.io/bbolt"
		own             = module + "/"
	)
	for name, forbidden := range map[string][]string{
		"engine/quorum":    {own},
		"engine":           {echo, websocket, wasm, redis, metrics, bolt, own + "server", own + "engine/redisnode", own + "engine/localnode", own + "policies"},
		"policies":         {echo, websocket, redis, metrics, bolt, own + "server", own + "engine/redisnode", own + "engine/localnode"},
		"engine/redisnode": {echo, websocket, wasm, metrics, bolt, own + "server", own + "engine/localnode"},
		"engine/localnode": {echo, websocket, wasm, redis, metrics, own + "server", own + "engine/redisnode"},
		"server":           {redis, bolt, own + "engine/redisnode", own + "engine/localnode", own + "engine/enginetest", own + "server/client"},
		"server/client":    {echo, wasm, redis, metrics, bolt, own + "engine", own + "server"},
		"":                 {own + "engine/enginetest"},
	} {
		p, there := packages(t)[name]
		if !there {
			t.Errorf("there is no package %q", name)
		}
		for _, dep := range p.Deps {
			for _, f := range forbidden {
				if strings.HasPrefix(dep, f) && dep != p.ImportPath {
					t.Errorf("%s depends on %s", p.ImportPath, dep)
				}
			}
		}
	}
}

// Decisions are pure: package quorum sees no clock, no I/O and no goroutine.
func TestQuorumIsPure(t *testing.T) {
	t.Parallel()
	p := packages(t)["engine/quorum"]
	pure := []string{"cmp", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time"}
	for _, i := range p.Imports {
		if !slices.Contains(pure, i) {
			t.Errorf("it imports %s", i)
		}
	}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, file := range p.GoFiles {
		tree, err := parser.ParseFile(token.NewFileSet(), p.Dir+"/"+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", file)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s calls time.%s", file, n.Sel.Name)
				}
			}
			return true
		})
	}
}
