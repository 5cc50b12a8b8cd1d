#include "models/chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/report.hpp"

namespace ebb::zoo {
namespace {

constexpr double kWidth = 900, kHeight = 560;
constexpr double kLeft = 80, kRight = 30, kTop = 60, kBottom = 70;

struct Axes {
  double x0, x1, y0, y1;  // of the data
  double x(double v) const {
    return kLeft + std::log(v / x0) / std::log(x1 / x0) * (kWidth - kLeft - kRight);
  }
  double y(double v) const {
    return kHeight - kBottom - (v - y0) / (y1 - y0) * (kHeight - kTop - kBottom);
  }
};

// 1, 2 or 5 times a power of ten, about a sixth of the range.
double round_step(double range) {
  const double raw = range / 6, power = std::pow(10, std::floor(std::log10(raw)));
  return power * (raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 : raw / power < 7.5 ? 5 : 10);
}

std::string label(double x, double y, const char* anchor, const std::string& words,
                  const char* more = "") {
  return formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more) +
         words + "</text>\n";
}

std::string line(double x0, double y0, double x1, double y1, const char* colour,
                 const char* more = "") {
  return formatted("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s/>\n", x0,
                   y0, x1, y1, colour, more);
}

std::string grid(const Axes& a) {
  std::string out;
  const double bottom = a.y(a.y0), step = round_step(a.y1 - a.y0);
  for (double v = a.y0; v <= a.y1 + step / 1000; v += step) {
    out += line(kLeft, a.y(v), kWidth - kRight, a.y(v), std::abs(v) < step / 2 ? "#888" : "#ddd");
    out += label(kLeft - 8, a.y(v) + 4, "end", formatted("%g%%", v));
  }
  for (double power = std::pow(10, std::floor(std::log10(a.x0))); power < a.x1; power *= 10)
    for (const double times : {1, 2, 5}) {
      const double v = power * times;
      if (v < a.x0 || v > a.x1) continue;
      out += line(a.x(v), kTop, a.x(v), bottom, "#ddd");
      out += label(a.x(v), bottom + 20, "middle", formatted("%g", v));
    }
  return out + line(kLeft, bottom, kWidth - kRight, bottom, "#333") +
         line(kLeft, kTop, kLeft, bottom, "#333");
}

std::string drawn(const Curve& c, const Axes& a) {
  std::string points, dots;
  for (const auto& [x, y] : c.points) {
    points += formatted("%.1f,%.1f ", a.x(x), a.y(y));
    if (!c.dashed)
      dots += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", a.x(x), a.y(y),
                        c.colour.c_str());
  }
  return "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + c.colour + "\"" +
         (c.dashed ? " stroke-dasharray=\"6 5\"" : "") + " points=\"" + points + "\"/>\n" + dots;
}

std::string drawn(const Bar& b, const Axes& a) {
  const double right = a.x(b.x), y = a.y(b.y), left = std::max(kLeft, right - 46);
  return line(left, y, right, y, b.colour.c_str(), " stroke-width=\"3\"") +
         line(right, y, right, a.y(0), b.colour.c_str(), " stroke-dasharray=\"2 4\"") +
         label(left, y - 6, "start", b.text,
               (" font-size=\"11\" fill=\"" + b.colour + "\"").c_str());
}

}  // namespace

std::string Chart::svg() const {
  double least = std::numeric_limits<double>::infinity(), most = 0, top = 1, low = 0;
  for (const Curve& c : curves)
    for (const auto& [x, y] : c.points) {
      least = std::min(least, x);
      most = std::max(most, x);
      top = std::max(top, y);
      low = std::min(low, y);
    }
  for (const Bar& b : bars) top = std::max(top, b.y);
  if (!(least < most)) return {};
  const double step = round_step(top - low);
  const Axes a{least / 1.15, most * 1.15, std::floor(low / step) * step,
               std::ceil(top / step) * step};
  std::string out = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"13\">\n",
      kWidth, kHeight, kWidth, kHeight);
  out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + grid(a);
  out += label(kLeft, 30, "start", title, " font-size=\"17\"");
  out += label((kLeft + kWidth - kRight) / 2, kHeight - 20, "middle", x_name);
  out += label(
      0, 0, "middle", y_name,
      formatted(" transform=\"translate(22 %.0f) rotate(-90)\"", (kTop + kHeight - kBottom) / 2)
          .c_str());
  for (const Bar& b : bars) out += drawn(b, a);
  double y = kTop + 16;
  for (const Curve& c : curves) {
    out += drawn(c, a);
    const double x = kWidth - kRight - 230;
    out += line(x, y - 4, x + 34, y - 4, c.colour.c_str(),
                c.dashed ? " stroke-width=\"2\" stroke-dasharray=\"6 5\"" : " stroke-width=\"2\"");
    out += label(x + 42, y, "start", c.name);
    y += 20;
  }
  return out + "</svg>\n";
}

}  // namespace ebb::zoo
