package night

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	// MaxQuote bounds, in bytes, what an error quotes of a value.
	MaxQuote = 100
)

// Quote quotes text from a user for an error, cut to a length that an event
// can carry.
func Quote(text string) string {
	if len(text) > MaxQuote {
		return strconv.Quote(strings.ToValidUTF8(text[:MaxQuote], "")) + "…"
	}
	return strconv.Quote(text)
}

// Printable is text with all escaped that a terminal might act on instead of showing
// it, in the manner of JSON: its encoder leaves some of these characters.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Amount is a number for people, with two decimals at the most.
func Amount(x float64) string {
	if math.Abs(x) >= 1e9 {
		return fmt.Sprintf("%.3g", x)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}
