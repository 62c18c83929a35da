package server

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// nodeUp is the state of a node that votes.
const nodeUp = "up"

// nodesJSON is what the nodes are, as this replica sees them.
type nodesJSON struct {
	Quorum int        `json:"quorum"`
	Items  []nodeJSON `json:"items"`
}

type nodeJSON struct {
	Node          string `json:"node"`
	Index         *int   `json:"index,omitempty"` // not while it is unknown
	State         string `json:"state"`
	Reason        string `json:"reason,omitempty"`
	Since         string `json:"since"`
	Era           int64  `json:"era,omitempty"`
	ClockOffsetMS int64  `json:"clock_offset_ms"`
	LatencyMS     number `json:"latency_ms" swaggertype:"number"`
	Warning       string `json:"warning,omitempty"`     // what is wrong with it though it votes
	GrantingAt    string `json:"granting_at,omitempty"` // after a cold start it grants nothing before
}

// number is written with three decimals: a node may be a few microseconds away.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(n), 'f', 3, 64), nil
}

func nodeOf(n engine.NodeStatus) nodeJSON {
	j := nodeJSON{
		Node: n.Name, State: n.State, Reason: n.Reason, Since: formatTime(n.Since), Era: n.Era,
		ClockOffsetMS: n.ClockOffset.Milliseconds(), LatencyMS: number(n.Latency.Seconds() * 1000),
		Warning: n.Warning,
	}
	if n.Index >= 0 {
		j.Index = &n.Index
	}
	if !n.GrantingAt.IsZero() {
		j.GrantingAt = formatTime(n.GrantingAt)
	}
	return j
}

// nodes lists the nodes.
//
//	@Summary	The nodes, as this replica sees them
//	@ID			nodes
//	@Tags		cluster
//	@Produce	json,plain
//	@Success	200		{object}	nodesJSON
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/nodes [get]
func (s *Server) nodes(c echo.Context, _ *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	if wantsText(c.Request()) {
		_, nodes := s.engine.Nodes()
		rows := make([][]string, len(nodes))
		for i, n := range nodes {
			rows[i] = []string{n.Name, n.State, oneLine(cmp.Or(n.Reason, n.Warning))}
		}
		return answerText(c, http.StatusOK, columns(rows))
	}
	return answerJSON(c, http.StatusOK, s.nodeList())
}

func (s *Server) nodeList() nodesJSON {
	quorum, nodes := s.engine.Nodes()
	list := nodesJSON{Quorum: quorum, Items: make([]nodeJSON, len(nodes))}
	for i, n := range nodes {
		list.Items[i] = nodeOf(n)
	}
	return list
}

// oneLine makes a field of a column out of an error of somebody else.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// votes counts the nodes that vote.
func votes(nodes []engine.NodeStatus) (n int) {
	for _, node := range nodes {
		if node.State == nodeUp {
			n++
		}
	}
	return n
}
