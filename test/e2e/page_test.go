package e2e

import (
	"context"
	"html"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// browser is a Chromium without a screen.
type browser struct {
	t    *testing.T
	path string
}

// findBrowser skips the test where there is none; in CI there has to be one.
func findBrowser(t *testing.T) browser {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return browser{t, path}
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no browser: CI needs chromium on its PATH, or its path in CHROMIUM")
	}
	t.Skip("SKIPPED, NO BROWSER: install chromium, or give its path in CHROMIUM")
	return browser{}
}

func (b browser) run(args ...string) string {
	b.t.Helper()
	profile, err := os.MkdirTemp("", "schedule-night-browser-")
	if err != nil {
		b.t.Fatal(err)
	}
	defer os.RemoveAll(profile) // what its processes still write on their way out is no failure
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir=" + profile}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s %v: %v", b.path, args, err)
	}
	return string(out)
}

var (
	tableRow = regexp.MustCompile(`(?s)<tr role="row" class="row.*?</tr>`)
	notWords = regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>`)
)

// open opens a page and returns its document, and the words of each row by the first,
// the Deployment's name.
func (b browser) open(url string) (document string, rows map[string]string) {
	b.t.Helper()
	document, rows = b.run("--dump-dom", url), map[string]string{}
	for _, row := range tableRow.FindAllString(document, -1) {
		words := strings.Fields(html.UnescapeString(notWords.ReplaceAllString(row, " ")))
		rows[words[0]] = strings.Join(words, " ")
	}
	return document, rows
}

// screenshot opens a page in a window of the given size.
func (b browser) screenshot(url, size string, dark bool) image.Image {
	b.t.Helper()
	scheme, path := "1", filepath.Join(b.t.TempDir(), "page.png")
	if dark {
		scheme = "0"
	}
	b.run("--blink-settings=preferredColorScheme="+scheme, "--window-size="+size, "--screenshot="+path, url)
	file, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		b.t.Fatal(err)
	}
	return picture
}

// holdLease makes somebody else the holder of the controllers' Lease until it is
// let go.
func holdLease(t *testing.T) (letGo func()) {
	t.Helper()
	leases := plane.Client.CoordinationV1().Leases(namespace)
	letGo = func() {
		if err := leases.Delete(context.Background(), "schedule-night", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	letGo()
	now := metav1.NowMicro()
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "schedule-night"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody"), LeaseDurationSeconds: ptr.To[int32](3600),
			AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(letGo)
	return letGo
}

// TestPage: what a browser shows of the status page: while nobody leads, when all is
// well, after a Deployment went to sleep, in the dark and on a phone.
func TestPage(t *testing.T) {
	b := findBrowser(t)
	letGo := holdLease(t)
	c := start(t)
	ns, other := makeNamespace(t), makeNamespace(t)
	long := strings.Repeat("w", 63) // no place to break it
	makeDeployment(t, ns, "web", 3, "on=true", "expected=3", "window=2020-01-01 00:00-24:00")
	makeDeployment(t, ns, "night", 2, "on=true", "expected=2", "window=00:00-24:00", "timezone=Asia/Tokyo")
	makeDeployment(t, ns, "unmanaged", 1)
	makeDeployment(t, other, "hostile", 1, "on=true", "expected=1", `window=<script>document.title="no"</script><img src=x onerror=alert(1)>`)
	makeDeployment(t, other, long, 1, "on=true", "expected=1", "window=21:00-07:00", "night-replicas=1")

	// A standby tells as well, and above all that nobody does the work.
	var rows map[string]string
	var document string
	c.eventually("all rows are there", func() bool { document, rows = b.open(c.url); return len(rows) == 4 })
	wantRow := func(name string, words ...string) {
		t.Helper()
		for _, want := range words {
			if !strings.Contains(rows[name], want) {
				t.Errorf("%s: %q without %q", name, rows[name], want)
			}
		}
	}
	wantRow("web", "awake", "3 of 3", "no change ahead")
	wantRow("night", "asleep overdue", "2 → , should be 0", "00:00-24:00 Asia/Tokyo")
	wantRow("hostile", "invalid", "in "+other, `schedule-night.svc/window "<script>`, "is not a day; use Mon, Tue")
	for _, want := range []string{"<title>1 overdue · schedule-night</title>", ">1</b><span class=\"mark invalid\">"} {
		if !strings.Contains(document, want) {
			t.Errorf("no %s in the document", want)
		}
	}
	if strings.Contains(document, "<script") || strings.Contains(document, "<img") {
		t.Error("an annotation became an element")
	}
	if first := strings.Index(document, ">hostile<"); first > strings.Index(document, ">web<") || first > strings.Index(document, ">night<") {
		t.Error("what is invalid does not come first")
	}
	if _, rows := b.open(c.url + "/?state=overdue&namespace=" + ns); len(rows) != 1 || rows["night"] == "" {
		t.Errorf("overdue in %s: %v", ns, rows)
	}

	// It leads, and all is well.
	letGo()
	c.waitLeading()
	waitReplicas(t, ns, "night", 0)
	c.eventually("nothing is overdue", func() bool {
		document, rows = b.open(c.url)
		return strings.Contains(document, "<title>schedule-night</title>")
	})
	wantRow("night", "asleep 0 of 2")

	// On reload, a Deployment that went to sleep meanwhile is shown asleep.
	annotate(t, ns, "web", "asleep-until="+inAnHour())
	waitReplicas(t, ns, "web", 0)
	waitCondition(t, ns, "web", corev1.ConditionTrue, "AsleepUntil")
	c.eventually("web sleeps", func() bool { _, rows = b.open(c.url); return strings.Contains(rows["web"], "asleep") })
	wantRow("web", "asleep by asleep-until", "0 of 3", "wakes in 1 h")
	if _, rows := b.open(c.url + "/?state=awake&namespace=" + ns); len(rows) != 0 {
		t.Errorf("awake in %s: %v", ns, rows)
	}

	// The style is let through by the page's own policy, and knows the dark.
	corner := func(dark bool) color.Color {
		return color.RGBAModel.Convert(b.screenshot(c.url, "1400,900", dark).At(2, 2))
	}
	if light, dark := corner(false), corner(true); light != (color.RGBA{0xf5, 0xf6, 0xf8, 0xff}) || dark != (color.RGBA{0x0f, 0x12, 0x17, 0xff}) {
		t.Errorf("the page is %v, in the dark %v", light, dark)
	}
	// On a phone nothing reaches over the right margin.
	phone := b.screenshot(c.url, "390,2000", false)
	size := phone.Bounds()
	for y := range size.Max.Y {
		if got := phone.At(size.Max.X-4, y); got != phone.At(2, 2) {
			t.Errorf("%v wide, %v at the right margin in line %d", size.Max.X, got, y)
			break
		}
	}
}

func TestPageOff(t *testing.T) {
	c := start(t, "--status-page=false", "--leader-elect=false", "--namespace", makeNamespace(t))
	for path, want := range map[string]int{"/": http.StatusNotFound, "/schedule.json": http.StatusNotFound, "/livez": http.StatusOK} {
		if code, _ := c.get(path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
}
