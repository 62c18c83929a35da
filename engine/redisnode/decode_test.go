package redisnode

import (
	"errors"
	"testing"

	"github.com/permitd/permitd/engine"
)

func TestAnAnswerThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	head := "done 1764517261000000 0"
	for _, test := range []struct {
		op    engine.Op
		value any
	}{
		{&engine.Claim{}, nil},
		{&engine.Claim{}, int64(1)},
		{&engine.Claim{}, ""},
		{&engine.Claim{}, []any{}},
		{&engine.Claim{}, "granted"},
		{&engine.Claim{}, "granted 1 0"},
		{&engine.Claim{}, "granted x 0 0 1 0 1 1 a 5 0 0  0 0 0 0   "},
		{&engine.Claim{}, "late now"},
		{&engine.Claim{}, "stale 1 1,x"},
		{&engine.Renew{}, "renewed 1 0 0-x 1 0 1 1 a 5"},
		{&engine.Renew{}, "renewed 1 0 0 1 0 1 1 a 5 and more"},
		{&engine.Find{}, []any{head}},
		{&engine.Find{}, []any{head, int64(5)}},
		{&engine.Find{}, []any{head, "nonsense"}},
		{&engine.Find{}, []any{head, "", "nonsense"}},
		{&engine.View{}, []any{head}},
		{&engine.View{}, []any{head + " 1 1 5 5", "", "", ""}},
		{&engine.View{}, []any{head + " 1 1 0 1", "", "", "", "nonsense"}},
		{&engine.View{}, []any{head + " 1 1 0 0", "", "", "", "L", "nonsense"}},
		{&engine.Prepare{}, []any{"no 1 0", "nonsense"}},
		{&engine.Peek{}, []any{head, "nonsense", ""}},
		{&engine.Freeze{}, []any{head, "format"}},
		{&engine.Freeze{}, []any{head, "format", "x"}},
	} {
		if a, err := decode(test.op, test.value); !errors.Is(err, errReply) {
			t.Errorf("%s: %q was read as %+v, %v", engine.OpName(test.op), test.value, a, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("granted 1764517261000017 0 0-3,7 12 0 never 1 aaaa 5 0 0  0 0 0 0   ", "", "")
	f.Add("done 1 0 5 6 1 1", "cursor", "1 a 10 0 0 0")
	f.Add("out 1 frozen because of something", "", "")
	f.Add("no 1 0", "7 abc", "")
	f.Fuzz(func(t *testing.T, head, second, third string) {
		for _, op := range operations {
			for _, value := range []any{head, []any{head, second, third}, []any{head, second, third, second, third}} {
				if a, err := decode(op, value); (a == nil) == (err == nil) {
					t.Fatalf("%s: %q: %+v, %v", engine.OpName(op), value, a, err)
				}
			}
		}
	})
}
