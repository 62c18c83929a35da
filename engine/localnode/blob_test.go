package localnode

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/permitd/permitd/engine"
)

func TestABlobIsAFileThatIsThereWhenTheDirectoryIsOpenedAgain(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	f := openAs(t, cfg, engine.Value{Limit: 1})
	f.says(t, &engine.PutBlob{Sum: "0a", Pieces: 1, Data: "data \x00\xff"}, engine.SaysDone)
	f.says(t, &engine.PutBlob{Sum: "0b", Pieces: 2, Data: "half of it"}, engine.SaysDone)
	f.node.Close()
	// What a crash may have left of one that was being written.
	if err := os.WriteFile(filepath.Join(cfg.Dir, blobsName, "0c"+freshEnd), []byte("some"), fileMode); err != nil {
		t.Fatal(err)
	}
	again := openAs(t, cfg, engine.Value{})
	defer again.node.Close()
	if a := again.says(t, &engine.Blobs{}, engine.SaysDone); !slices.Equal(a.Names, []string{"0a"}) {
		t.Errorf("it has %v", a.Names)
	}
	if a := again.says(t, &engine.GetBlob{Sum: "0a"}, engine.SaysDone); a.Data != "data \x00\xff" || a.Pieces != 1 {
		t.Errorf("it reads %q, of %d pieces", a.Data, a.Pieces)
	}
	again.says(t, &engine.GetBlob{Sum: "0b"}, engine.SaysNo)
	again.says(t, &engine.DropBlob{Sum: "0a"}, engine.SaysDone)
	if a := again.says(t, &engine.Blobs{}, engine.SaysDone); len(a.Names) != 0 {
		t.Errorf("it still has %v", a.Names)
	}
}
