package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// recoveryJSON is the nodes, and what an operator's decision about them gives up.
type recoveryJSON struct {
	nodesJSON
	GivesUp []string `json:"gives_up"`
}

// readmitNode takes a node back that was replaced by one of another list.
//
//	@Summary	Take back a node that was replaced
//	@ID			readmit-node
//	@Tags		cluster
//	@Param		node	path	string		true	"Its index, or its name as /v1/nodes tells it"
//	@Param		request	body	readmitBody	false	"Why"
//	@Produce	json,plain
//	@Success	200		{object}	recoveryJSON	"Of a dry run"
//	@Success	202		{object}	recoveryJSON	"It is under way: /v1/nodes tells how it goes"
//	@Failure	404		{object}	problem			"not_found: no such node"
//	@Failure	409		{object}	problem			"not_needed"
//	@Failure	default	{object}	problem			"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/nodes/{node}/readmit [post]
func (s *Server) readmitNode(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	dry, reason := p.flag("dry_run", false), p.reason()
	if err := p.end(); err != nil {
		return err
	}
	position, ok := s.nodeAt(pathNode(c.Request().URL))
	if !ok {
		return newProblem(kindNotFound, "there is no such node; /v1/nodes lists them")
	}
	_, nodes := s.engine.Nodes()
	gives, err := s.engine.Readmit(position, dry, who.name)
	return s.decided(c, who, dry, gives, err, event{Type: actReadmitted, Node: nodes[position].Name, Reason: reason})
}

// recoverNodes goes on with what the nodes that are left remember.
//
//	@Summary		Go on without nodes that are lost
//	@Description	For when fewer than a quorum vote, and that will not mend itself: nodes are lost for good, or too few of them have a full memory.
//	@ID				recover-nodes
//	@Tags			cluster
//	@Param			request	body	recoverBody	false	"Which nodes are given up"
//	@Produce		json,plain
//	@Success		200		{object}	recoveryJSON	"Of a dry run"
//	@Success		202		{object}	recoveryJSON	"It is under way: /v1/nodes tells how it goes"
//	@Failure		409		{object}	problem			"not_needed"
//	@Failure		default	{object}	problem			"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security		Bearer
//	@Router			/v1/nodes/recover [post]
func (s *Server) recoverNodes(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	without, names := s.nodesGiven(p)
	dry, reason := p.flag("dry_run", false), p.reason()
	if err := p.end(); err != nil {
		return err
	}
	gives, err := s.engine.Recover(without, dry, who.name)
	return s.decided(c, who, dry, gives, err, event{Type: actRecovered, Node: strings.Join(names, ","), Reason: reason})
}

// decided answers an operator's decision about nodes.
func (s *Server) decided(c echo.Context, who *principal, dry bool, gives []string, err error, act event) error {
	switch {
	case errors.Is(err, engine.ErrNotNeeded):
		return newProblem(kindNotNeeded, "%s", err.Error())
	case err != nil:
		return err
	}
	status := http.StatusOK
	if !dry {
		s.acted(c, who, act)
		status = http.StatusAccepted
	}
	if wantsText(c.Request()) {
		return answerText(c, status, strings.Join(gives, "\n")+"\n")
	}
	return answerJSON(c, status, recoveryJSON{s.nodeList(), append([]string{}, gives...)})
}

// nodesGiven takes the nodes that without names: an array of JSON, or text with commas.
func (s *Server) nodesGiven(p *params) (positions []int, names []string) {
	v := p.take("without")
	if v == nil {
		return nil, nil
	}
	var list []any
	if v.json && strings.HasPrefix(v.text, "[") {
		d := json.NewDecoder(strings.NewReader(v.text))
		d.UseNumber()
		if d.Decode(&list) != nil {
			p.fail("without", "must be a list of nodes")
		}
	} else if text, _ := v.string(); text != "" {
		for name := range strings.SplitSeq(text, ",") {
			list = append(list, name)
		}
	} else if v.json && v.text != `""` {
		list = append(list, v.text) // one number
	}
	_, nodes := s.engine.Nodes()
	for _, x := range list {
		name, text := x.(string)
		if n, number := x.(json.Number); number {
			name = n.String()
		} else if !text {
			p.fail("without", "must be a list of nodes")
		}
		position, ok := s.nodeAt(name)
		if !ok {
			p.fail("without", "names a node that there is not")
			return nil, nil
		}
		positions, names = append(positions, position), append(names, nodes[position].Name)
	}
	return positions, names
}

// nodeAt finds a node by its name, or by its index; where that is not known yet, by its place in the list.
func (s *Server) nodeAt(text string) (position int, ok bool) {
	_, nodes := s.engine.Nodes()
	number, err := strconv.Atoi(text)
	for i, n := range nodes {
		if n.Name == text || err == nil && n.Index == number {
			return i, true
		}
	}
	if err != nil || number < 0 || number >= len(nodes) || nodes[number].Index >= 0 {
		return 0, false
	}
	return number, true
}

// pathNode returns the segment between /nodes/ and /readmit, decoded once.
func pathNode(u *url.URL) string {
	segment := strings.TrimSuffix(strings.TrimPrefix(u.EscapedPath(), "/v1/nodes/"), "/readmit")
	text, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return text
}
