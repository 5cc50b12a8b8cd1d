#include "apps/ebb/frontier_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/ebb/console.hpp"
#include "ebb/base/bytes.hpp"

namespace ebb::app {
namespace {

constexpr double kWidth = 720, kHeight = 420;
constexpr double kLeft = 84, kRight = 24, kTop = 72, kBottom = 62;
constexpr const char* kColours[] = {"#0b7285", "#e8890c", "#c2255c"};  // by label
constexpr double kLogFrom = 6;  // an axis is logarithmic where it spans more than so many times

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text)
    all += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return all;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start",
                    const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(text));
}

std::string line_at(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

// From values to places of the picture.
class Axis {
 public:
  Axis(double least, double most, double from, double to, bool from_zero)
      : log_(most > kLogFrom * least), from_(from), to_(to) {
    if (log_) {
      least_ = std::log(least / 1.15), most_ = std::log(most * 1.1);
    } else {
      const double margin = std::max(most - least, most * 0.05) * 0.08;
      least_ = from_zero ? 0 : std::max(0.0, least - margin);
      most_ = from_zero ? most * 1.12 : most + margin;
    }
  }
  double operator()(double value) const {
    const double v = log_ ? std::log(std::max(value, 1e-12)) : value;
    return from_ + (std::clamp(v, least_, most_) - least_) / (most_ - least_) * (to_ - from_);
  }
  // Round numbers in `unit`, at most `count` of them.
  std::vector<double> ticks(double unit, int count, bool binary) const {
    std::vector<double> all;
    const double low = (log_ ? std::exp(least_) : least_) / unit;
    const double high = (log_ ? std::exp(most_) : most_) / unit;
    if (log_) {
      for (int step = 1; all.empty() || static_cast<int>(all.size()) > count; ++step) {
        all.clear();
        for (int e = -40; e < 60; e += step) {
          const double v = binary
                               ? std::exp2(e)
                               : std::pow(10, std::floor(e / 3.0)) * (e % 3 == 0             ? 1
                                                                      : (e % 3 + 3) % 3 == 1 ? 2
                                                                                             : 5);
          if (v >= low && v <= high) all.push_back(v * unit);
        }
        if (step > 60) break;
      }
      return all;
    }
    double step = 1e-6;
    constexpr double kSteps[] = {1, 2, 5};
    for (int i = 0; (high - low) / step > count; ++i)
      step = std::pow(10, i / 3 - 6) * kSteps[i % 3];
    for (double v = std::ceil(low / step) * step; v <= high; v += step) all.push_back(v * unit);
    return all;
  }

 private:
  bool log_;
  double from_, to_, least_ = 0, most_ = 1;
};

std::string bytes_text(double bytes) {
  double unit = 1;
  const char* name = "B";
  for (const char* n : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes < unit * 1024 * 0.999) break;
    unit *= 1024, name = n;
  }
  return fmt::format("{:.4g} {}", bytes / unit, name);
}

constexpr double kFloor = kHeight - kBottom, kEdge = kWidth - kRight;  // of the plot

double as_double(std::uint64_t bytes) { return static_cast<double>(bytes); }

// What the axes span.
struct Extent {
  double least, most, fast, slow;
  bool beyond =
      false;  // the budget is far above what is of use, and would squeeze all else to the left
};

Extent extent_of(const FrontierPicture& p) {
  Extent e{as_double(p.minimum), as_double(p.budget), 1e30, p.chosen_seconds};
  if (p.chosen_seconds > 0) e.fast = p.chosen_seconds;
  if (p.budget) e.least = std::min(e.least, as_double(p.budget));
  for (const plan::FrontierPoint& f : p.frontier) {
    e.least = std::min(e.least, as_double(f.budget)),
    e.most = std::max(e.most, as_double(f.budget));
    e.fast = std::min(e.fast, f.seconds), e.slow = std::max(e.slow, f.seconds);
  }
  e.most = std::max(e.most, e.least * 1.2);
  const double useful = p.frontier.empty() ? e.most : as_double(p.frontier.back().budget);
  e.beyond = as_double(p.budget) > useful * 2;
  if (e.beyond) e.most = useful * 2;
  return e;
}

class Picture {
 public:
  explicit Picture(const FrontierPicture& picture)
      : p_(picture),
        e_(extent_of(picture)),
        x_(e_.least, e_.most, kLeft, kEdge, false),
        y_(e_.fast, e_.slow, kFloor, kTop, true) {}

  std::string all() const {
    return titles() + axes() + smallest() + curve() + budget() + legend() + "</svg>\n";
  }

 private:
  std::string titles() const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
               "height=\"{1}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
               "fill=\"#343a40\">\n"
               "<title>Time a step over the memory budget: {2}</title>\n"
               "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
               kWidth, kHeight, escaped(p_.title)) +
           text_at(kLeft, 26, "Time a step over the memory budget", "start",
                   " font-size=\"16\" font-weight=\"600\"") +
           text_at(kLeft, 46, p_.title, "start", " fill=\"#868e96\"");
  }

  std::string axes() const {
    std::string out = fmt::format(  // where nothing fits
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#f1f3f5\"/>\n",
        kLeft, kTop, x_(as_double(p_.minimum)) - kLeft, kFloor - kTop);
    for (const double v : y_.ticks(e_.fast < 1e-3 ? 1e-6 : e_.fast < 1 ? 1e-3 : 1, 6, false)) {
      out += line_at(kLeft, y_(v), kEdge, y_(v), "stroke=\"#e9ecef\"");
      out += text_at(kLeft - 8, y_(v) + 4, v == 0 ? "0" : readable_time(v), "end");
    }
    for (const double v : x_.ticks(1 << 20, 8, true)) {
      out += line_at(x_(v), kFloor, x_(v), kFloor + 5, "stroke=\"#adb5bd\"");
      out += text_at(x_(v), kFloor + 20, bytes_text(v), "middle");
    }
    out += line_at(kLeft, kFloor, kEdge, kFloor, "stroke=\"#adb5bd\"");
    out += line_at(kLeft, kTop, kLeft, kFloor, "stroke=\"#adb5bd\"");
    out +=
        text_at((kLeft + kEdge) / 2, kHeight - 14, "memory budget of the whole process", "middle");
    return out + fmt::format(
                     "<text transform=\"translate(18 {:.1f}) rotate(-90)\" "
                     "text-anchor=\"middle\">time a step</text>\n",
                     (kTop + kFloor) / 2);
  }

  std::string smallest() const {
    const double at = x_(as_double(p_.minimum));
    return line_at(at, kTop, at, kFloor, "stroke=\"#868e96\" stroke-dasharray=\"3 3\"") +
           text_at(at, kTop - 5, "smallest: " + plan::enough(p_.minimum),
                   at > kEdge - 160 ? "end" : "start", " fill=\"#495057\"");
  }

  // A budget gets the time of the last point that it reaches.
  std::string curve() const {
    std::string path, points;
    for (const plan::FrontierPoint& f : p_.frontier) {
      const double px = x_(as_double(f.budget)), py = y_(f.seconds);
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", px, py)
                           : fmt::format("H{:.1f}V{:.1f}", px, py);
      points += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" fill=\"{}\"><title>{}, {} a step: {} "
          "({})</title></circle>\n",
          px, py, kColours[static_cast<int>(f.label)], plan::enough(f.budget),
          readable_time(f.seconds), escaped(f.text()), name(f.label));
    }
    if (path.empty()) return "";
    return fmt::format(
               "<path d=\"{}H{:.1f}\" fill=\"none\" stroke=\"#74b3bd\" stroke-width=\"2\"/>\n",
               path, kEdge) +
           points;
  }

  std::string budget() const {
    if (!p_.budget) return "";
    const double px = x_(as_double(p_.budget));
    const bool low = p_.chosen_seconds <= 0, left = px > (kLeft + kEdge) / 2;
    const char* colour = low ? "#c92a2a" : "#1971c2";
    const std::string time = readable_time(p_.chosen_seconds);
    const std::string said = "budget " + to_string(ByteSize{p_.budget}) +
                             (low         ? " is too small"
                              : e_.beyond ? " (further right): " + time
                                          : ": " + time + " a step");
    const double point = y_(p_.chosen_seconds);
    const double at = low ? kFloor - 12 : point > kTop + 30 ? point - 14 : point + 24;
    std::string out = line_at(px, kTop, px, kFloor,
                              fmt::format("stroke=\"{}\" stroke-width=\"1.5\"", colour).c_str());
    out += text_at(px + (left ? -9 : 9), at, said, left ? "end" : "start",
                   fmt::format(" fill=\"{}\" font-weight=\"600\"", colour).c_str());
    if (low) return out;
    return out + fmt::format(
                     "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7.5\" fill=\"#ffffff\" "
                     "stroke=\"{}\" stroke-width=\"3\"/>\n",
                     px, y_(p_.chosen_seconds), colour);
  }

  std::string legend() const {
    std::string out;
    double at = kEdge;
    for (int i = 2; i >= 0; --i) {
      const auto label = static_cast<Allow>(i);
      if (std::none_of(p_.frontier.begin(), p_.frontier.end(),
                       [&](const plan::FrontierPoint& f) { return f.label == label; }))
        continue;
      const std::string text = name(label);
      at -= 7.0 * static_cast<double>(text.size()) + 10;
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"22\" r=\"4.5\" fill=\"{}\"/>\n", at - 9,
                         kColours[i]);
      out += text_at(at, 26, text);
      at -= 22;
    }
    return out;
  }

  const FrontierPicture& p_;
  Extent e_;
  Axis x_, y_;
};

}  // namespace

std::string frontier_svg(const FrontierPicture& picture) { return Picture(picture).all(); }

}  // namespace ebb::app
