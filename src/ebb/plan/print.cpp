// A Plan for people, in ten seconds; and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>

#include "ebb/base/quoted.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb {

const char* name(Allow label) {
  constexpr const char* kNames[] = {"same bits", "same gradient", "approximate"};
  return kNames[static_cast<int>(label)];
}

namespace plan {
namespace {

std::string readable(std::uint64_t bytes) { return to_string(ByteSize{bytes}); }

std::string time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string line(const FrontierPoint& p, double fastest) {
  return fmt::format("{:>10}  {:>9}  {:>+5.0f}%  {:<13}  {}", enough(p.budget), time(p.seconds),
                     fastest > 0 ? (p.seconds / fastest - 1) * 100 : 0.0, name(p.label), p.text());
}

std::string json_of(const FrontierPoint& p) {
  return fmt::format(
      "{{\"budget\": {}, \"seconds\": {:.9g}, \"micro_batch\": {}, \"recomputed\": {}, "
      "\"written\": {}, \"read\": {}, \"state_spilled\": {}, \"mixed\": {}, \"gradient_blocks\": "
      "{}, "
      "\"activations\": \"{}\", \"label\": \"{}\"}}",
      p.budget, p.seconds, p.micro_batch, p.recomputed, p.written, p.read, p.state_spilled, p.mixed,
      p.gradient_blocks, ebb::name(p.activations), name(p.label));
}

}  // namespace

std::string enough(std::uint64_t budget) {
  std::uint64_t unit = 1;
  while (budget / unit >= 1024) unit *= 1024;
  const std::uint64_t hundredths = (budget % unit * 100 + unit - 1) / unit;
  return readable(budget / unit * unit + (hundredths * unit + 99) / 100);
}

std::string FrontierPoint::text() const {
  std::string text;
  const auto say = [&](std::string more) { text += (text.empty() ? "" : ", ") + more; };
  if (split)
    say(fmt::format("micro-batches of {}{}", micro_batch,
                    mixed ? ", each a batch of its own" : ""));
  if (recomputed) say(fmt::format("recompute {} call{}", recomputed, recomputed == 1 ? "" : "s"));
  if (written + read)
    say(fmt::format("spill {} a step{}", readable(written + read),
                    state_spilled ? ", parameters and optimizer state too" : ""));
  if (activations != DType::f32) say(fmt::format("activations in {}", ebb::name(activations)));
  if (gradient_blocks)
    say(fmt::format("gradient{} of {} parameter{} in blocks", gradient_blocks == 1 ? "" : "s",
                    gradient_blocks, gradient_blocks == 1 ? "" : "s"));
  return text.empty() ? "keep everything" : text;
}

std::string to_string(const Plan& p) {
  const Forecast& f = p.forecast;
  std::string out;
  const auto to = std::back_inserter(out);
  if (p.budget) {
    fmt::format_to(to, "fits in {}{}: ", readable(p.budget),
                   p.source.empty() ? "" : " (" + p.source + ")");
  } else {
    fmt::format_to(to, "no budget: ");
  }
  fmt::format_to(to, "{} ({})\n", p.chosen.text(), name(p.chosen.label));
  if (p.divided())
    fmt::format_to(to, "  rank {} of {}           {:>10}   rows of each batch of {}\n",
                   p.part.index, p.part.count, p.part.rows(p.examples), p.examples);
  if (!p.approximate.empty()) fmt::format_to(to, "  approximate           {}\n", p.approximate);
  fmt::format_to(to, "  peak of the process   {:>10}   of it arena {}, runtime {} ({} set aside)\n",
                 readable(f.process), readable(f.arena), readable(f.runtime), readable(f.reserve));
  if (f.measured.peak_before > f.process)
    fmt::format_to(
        to, "  before the first step {:>10}   to read and to plan: the process came to that\n",
        readable(f.measured.peak_before));
  fmt::format_to(to, "  at the peak ({})\n", f.op.empty() ? "nothing runs" : f.op);
  for (int c = 0; c < kCategories; ++c)
    if (f.at_peak[c])
      fmt::format_to(to, "    {:<19} {:>10}\n", ebb::name(static_cast<Category>(c)),
                     readable(f.at_peak[c]));
  if (f.others) fmt::format_to(to, "    {:<19} {:>10}\n", "other tensors", readable(f.others));
  if (f.gaps) fmt::format_to(to, "    {:<19} {:>10}\n", "gaps in the arena", readable(f.gaps));
  fmt::format_to(to, "    {:<19} {:>10}\n", "runtime", readable(f.runtime));
  fmt::format_to(to, "  time a step           {:>10}   {:+.0f}% against no budget\n",
                 time(f.seconds), f.overhead() * 100);
  if (f.measured.steps)
    fmt::format_to(to,
                   "  measured              {:>10}   over {} step{}, {:+.0f}% against forecast\n",
                   time(f.measured.seconds), f.measured.steps, f.measured.steps == 1 ? "" : "s",
                   f.seconds > 0 ? (f.measured.seconds / f.seconds - 1) * 100 : 0.0);
  if (f.spilled)
    fmt::format_to(to, "  spill file            {:>10}   of the disk ({} bytes)\n",
                   enough(f.spilled), f.spilled);
  if (p.budget)
    fmt::format_to(
        to, "  left in the budget    {:>10}   steps of other threads have arenas there, or wait\n",
        readable(p.budget - std::min(p.budget, f.process)));
  fmt::format_to(to, "  smallest budget       {:>10}   ({} bytes)\n", enough(p.minimum), p.minimum);
  if (p.frontier.size() > 1) {
    out += "  budget      time a step          label          how\n";
    for (const FrontierPoint& point : p.frontier)
      fmt::format_to(to, "{}{}\n", p.budget && point.seconds == f.seconds ? "> " : "  ",
                     line(point, f.unlimited_seconds));
  }
  return out;
}

std::string Plan::json() const {
  std::string out = fmt::format(
      "{{\"budget\": {}, \"minimum\": {}, \"arena\": {}, \"process\": {}, \"runtime\": {}, "
      "\"reserve\": {}, \"spilled\": {}, \"seconds\": {:.9g}, \"unlimited_seconds\": {:.9g}, "
      "\"peak_before\": {}, \"measured_seconds\": {:.9g}, \"measured_steps\": {}, \"others\": {}, "
      "\"gaps\": {}, \"micro_batches\": {}, "
      "\"peak_op\": {}, \"approximate\": {}, \"source\": {}, \"chosen\": {}, \"at_peak\": {{",
      budget, minimum, forecast.arena, forecast.process, forecast.runtime, forecast.reserve,
      forecast.spilled, forecast.seconds, forecast.unlimited_seconds, forecast.measured.peak_before,
      forecast.measured.seconds, forecast.measured.steps, forecast.others, forecast.gaps,
      runs.size(), quoted(forecast.op), quoted(approximate), quoted(source), json_of(chosen));
  for (int c = 0; c < kCategories; ++c)
    out += fmt::format("{}\"{}\": {}", c ? ", " : "", ebb::name(static_cast<Category>(c)),
                       forecast.at_peak[c]);
  out += "}, \"frontier\": [";
  for (std::size_t i = 0; i < frontier.size(); ++i) out += (i ? ", " : "") + json_of(frontier[i]);
  return out + "]}";
}

std::ostream& operator<<(std::ostream& out, const Plan& plan) { return out << to_string(plan); }

}  // namespace plan
}  // namespace ebb
