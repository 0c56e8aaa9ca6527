package plan

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
)

// screen is what the table is made for.
type screen struct {
	width  int
	colour bool
}

func screenOf(out io.Writer, getenv func(string) string) screen {
	s := screen{width: 80}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		s.width = width
	}
	s.colour = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

// table is the plan for people.
func (p *planner) table(s screen) string {
	var managed []outlook.Row
	var saved outlook.Savings
	for _, row := range p.rows {
		if row.State != outlook.Unmanaged {
			managed = append(managed, row)
			saved.Replicas += row.Saved.Replicas
			saved.Cores += row.Saved.Cores
			saved.Gibibytes += row.Saved.Gibibytes
		}
	}
	var b strings.Builder
	if len(managed) > 0 {
		p.writeRows(&b, managed, s)
	} else {
		b.WriteString("No managed Deployments")
		if p.scope.Namespace != "" {
			b.WriteString(" in namespace " + p.scope.Namespace + "; -A looks at all")
		}
		b.WriteByte('\n')
	}
	if n := len(p.rows) - len(managed); n > 0 {
		b.WriteString(fold(fmt.Sprintf("Not managed (no %s=true): %d", night.AnnotationOn, n), s.width))
	}
	b.WriteString(fold(fmt.Sprintf("Saves %s replica-hours, %s CPU-hours and %s GiB-hours of memory in %s",
		night.Amount(saved.Replicas), night.Amount(saved.Cores), night.Amount(saved.Gibibytes), span(p.to.Sub(p.from))), s.width))
	return b.String()
}

// gap is what stands between two columns.
const gap = 2

// writeRows writes a line for each Deployment. The bar is its last column where it
// fits with an hour or less a cell, else the bars follow in a table of their own.
func (p *planner) writeRows(b *strings.Builder, managed []outlook.Row, s screen) {
	// An hour a cell, and one more for a start within the hour; long plans make do with less.
	hours := 1 + int(min((p.to.Sub(p.from)+time.Hour-1)/time.Hour, 48))
	var rows [][]string
	var inline bool
	for _, try := range []struct{ inline, zoneNames bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		inline, rows = try.inline, p.cells(managed, try.zoneNames)
		if inline && tableWidth(rows)+gap+hours <= s.width || !inline && tableWidth(rows) <= s.width {
			break
		}
	}
	if !inline {
		names := make([][]string, len(rows))
		for i := range rows {
			names[i] = slices.Clone(rows[i][:2])
		}
		shrinkNames(rows, s.width)
		writeTable(b, rows)
		b.WriteByte('\n')
		rows = names
		shrinkNames(rows, s.width-gap-hours)
	}

	a := newAxis(p.from, p.to, p.rulerZone(managed), s.width-tableWidth(rows)-gap)
	legend := "█ awake  ░ asleep"
	rows[0] = append(rows[0], a.ruler())
	for i, row := range managed {
		bar := a.bar(&row)
		if row.State == outlook.Invalid && !strings.Contains(legend, "?") {
			legend += "  ? invalid"
		}
		if s.colour {
			bar = paint(bar)
		}
		rows[i+1] = append(rows[i+1], bar)
	}
	writeTable(b, rows)
	b.WriteString("\n" + fold(fmt.Sprintf("%s   %s from %s, %s a cell", legend,
		span(p.to.Sub(p.from)), p.from.In(a.start.Location()).Format("Mon 2 Jan 15:04 ")+a.start.Location().String(), span(a.cell)), s.width))
}

// rulerZone is the zone that all schedules share, else the default.
func (p *planner) rulerZone(managed []outlook.Row) *time.Location {
	zones := map[*time.Location]bool{}
	for _, row := range managed {
		if row.Schedule != nil {
			zones[row.Schedule.Location] = true
		}
	}
	for zone := range zones {
		if len(zones) == 1 {
			return zone
		}
	}
	return p.defaults.Location
}

// cells are the text columns, with their headings.
func (p *planner) cells(managed []outlook.Row, zoneNames bool) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "STATE", "REPLICAS", "EXPECTED", "NEXT CHANGE"}}
	for _, row := range managed {
		expected, next := "-", "-"
		if row.Schedule != nil || row.State == outlook.Released {
			expected = strconv.Itoa(int(row.Expected))
		}
		if !row.Next.IsZero() {
			layout := "Mon 15:04 "
			if row.Next.Sub(p.from) > 6*24*time.Hour {
				layout = "2006-01-02 15:04 "
			}
			next = row.Next.Format(layout)
			if offset := row.Next.Format("-07:00"); zoneNames || len(row.Timezone) <= len(offset) {
				next += row.Timezone
			} else {
				next += offset
			}
		}
		rows = append(rows, []string{night.Printable(row.Namespace), night.Printable(row.Name), string(row.State), strconv.Itoa(int(row.Replicas)), expected, next})
	}
	return rows
}

func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func tableWidth(rows [][]string) int {
	total := -gap
	for _, width := range columnWidths(rows) {
		total += gap + width
	}
	return total
}

// shrinkNames cuts the first two columns, the wider first, until the table fits.
func shrinkNames(rows [][]string, width int) {
	widths := columnWidths(rows)
	for excess := tableWidth(rows) - width; excess > 0 && max(widths[0], widths[1]) > 1; excess-- {
		if widths[0] > widths[1] {
			widths[0]--
		} else {
			widths[1]--
		}
	}
	for _, row := range rows {
		for i := range 2 {
			if name := []rune(row[i]); len(name) > widths[i] {
				row[i] = string(name[:widths[i]-1]) + "…"
			}
		}
	}
}

func writeTable(b *strings.Builder, rows [][]string) {
	widths := columnWidths(rows)
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
}

// axis is the time that bars and their ruler have in common: cells of one length,
// the first starting on a round local time at or before the plan's start.
type axis struct {
	from  time.Time // of the plan
	start time.Time // in the ruler's zone
	cell  time.Duration
	cells int
}

// cellLengths are those that fill hours and days. The last makes a month narrow
// enough for any width.
var cellLengths = []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour}

// newAxis covers [from, to] with the shortest cells of which so many fit.
func newAxis(from, to time.Time, zone *time.Location, width int) axis {
	var a axis
	from = from.In(zone)
	for _, cell := range cellLengths {
		start := from.Add(wall(from).Truncate(cell).Sub(wall(from)))
		a = axis{from, start, cell, int((to.Sub(start) + cell - 1) / cell)}
		if a.cells <= width {
			break
		}
	}
	return a
}

// wall is the local clock's reading as if it were UTC, for arithmetic on it.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// ruler writes local times over the cells in which they are reached, midnight as
// the day that starts.
func (a axis) ruler() string {
	step := 24 * time.Hour
	for _, s := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		if s/a.cell >= time.Duration(len("15:04 ")) {
			step = s
			break
		}
	}
	day := "Mon"
	if time.Duration(a.cells)*a.cell > 8*24*time.Hour {
		day = "Jan 2"
	}
	line := ""
	last := wall(a.start.Add(-1)).Truncate(step)
	for i := range a.cells {
		mark := wall(a.start.Add(time.Duration(i) * a.cell)).Truncate(step)
		label := mark.Format("15:04")
		if label == "00:00" {
			label = mark.Format(day)
		}
		if mark.After(last) && (i == 0 || len(line) < i) && i+len(label) <= a.cells {
			line += strings.Repeat(" ", i-len(line)) + label
		}
		last = mark
	}
	return line
}

// bar draws what becomes of a workload, each cell by what holds in its two halves.
func (a axis) bar(row *outlook.Row) string {
	switch {
	case row.State == outlook.Released:
		return strings.Repeat("█", a.cells)
	case row.Schedule == nil:
		return strings.Repeat("?", a.cells)
	}
	list := outlook.Stretches(row.Schedule, a.from, a.start.Add(time.Duration(a.cells)*a.cell))
	stateAt := func(t time.Time) outlook.State { // never an earlier t than before
		for len(list) > 1 && !t.Before(list[1].From) {
			list = list[1:]
		}
		return list[0].State
	}
	var b strings.Builder
	for i := range a.cells {
		middle := a.start.Add(time.Duration(i)*a.cell + a.cell/2)
		left, right := stateAt(middle.Add(-a.cell/4)), stateAt(middle.Add(a.cell/4))
		switch {
		case left == outlook.Invalid || right == outlook.Invalid:
			b.WriteString("?")
		case left == outlook.Awake && right == outlook.Awake:
			b.WriteString("█")
		case left == outlook.Awake:
			b.WriteString("▌")
		case right == outlook.Awake:
			b.WriteString("▐")
		default:
			b.WriteString("░")
		}
	}
	return b.String()
}

// barColours makes what is asleep faint, what is awake green and what is invalid red.
var barColours = regexp.MustCompile(`░+|\?+|[█▌▐]+`)

func paint(bar string) string {
	return barColours.ReplaceAllStringFunc(bar, func(run string) string {
		colour := "32"
		switch {
		case strings.HasPrefix(run, "░"):
			colour = "2"
		case strings.HasPrefix(run, "?"):
			colour = "31"
		}
		return "\x1b[" + colour + "m" + run + "\x1b[0m"
	})
}

// fold breaks a line between words.
func fold(line string, width int) string {
	var b strings.Builder
	for utf8.RuneCountInString(line) > width {
		at := strings.LastIndexByte(string([]rune(line)[:width+1]), ' ')
		if at < 0 {
			break
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = line[at+1:]
	}
	return b.String() + line + "\n"
}

// span is a duration without the units that are 0.
func span(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}
