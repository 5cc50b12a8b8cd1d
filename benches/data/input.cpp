// How fast files become rows, from the page cache, on all threads; and how soon a walk goes on far inside.
//
//   bench_input [--quick] [--json] [--only=npy,csv,jsonl,png,resume]
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <vector>

#include "data/files.hpp"
#include "ebb/ebb.hpp"
#include "ebb/io/text/csv.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::input;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The median of some, beside the bar where there is one.
void speed(zoo::Report& report, const char* what, double megabytes, double bar,
           const std::function<void()>& work) {
  std::vector<double> all;
  const std::clock_t before = std::clock();
  for (int i = 0; i < 5; ++i) all.push_back(megabytes / seconds_of(work));
  // What a core does in a second of its time, which others on the machine change less.
  const double cpu = 5 * megabytes * CLOCKS_PER_SEC / static_cast<double>(std::clock() - before);
  std::sort(all.begin(), all.end());
  const std::string seen = zoo::formatted("%.0f MB/s (%.0f to %.0f), %.0f MB a second of a core",
                                          all[2], all.front(), all.back(), cpu);
  report.metric(what, "speed", all[2], "MB/s");
  report.metric(what, "speed of a core", cpu, "MB/s");
  if (bar > 0)
    report.check(zoo::formatted("%s, at least %.0f MB/s", what, bar), all[2] >= bar, seen);
  else
    report.say("        %-58s %s\n", what, seen.c_str());
}

double megabytes_of(const std::string& path) {
  read_through(path);
  return static_cast<double>(std::filesystem::file_size(path)) / 1e6;
}

void csv(zoo::Report& report, const Folder& folder, std::uint64_t bytes) {
  const std::string path = folder.path("a.csv");
  write_csv(path, bytes);
  const double size = megabytes_of(path);
  const io::CsvSchema schema = io::read_csv_schema(path);
  speed(report, "csv: what its columns are", size, 0, [&] { (void)io::read_csv_schema(path); });
  io::CsvLayout layout;
  for (const io::CsvColumn& c : schema.columns) {
    const bool number = c.kind == io::ColumnKind::number;
    layout.columns.push_back(
        {number ? io::CsvPlace::As::number : io::CsvPlace::As::id, layout.words++});
  }
  speed(report, "csv: rows", size, 200,
        [&] { read_csv_rows(path, {}, schema, layout, [](auto) {}); });
  speed(report, "csv: a data set, from nothing (both passes)", size, 0,
        [&] { (void)data::csv(path, {.target = "kind", .standardise = true}); });
}

void jsonl(zoo::Report& report, const Folder& folder, std::uint64_t bytes) {
  const std::string path = folder.path("a.jsonl");
  write_jsonl(path, bytes);
  const double size = megabytes_of(path);
  const io::JsonlSchema schema = io::read_jsonl_schema(path);
  speed(report, "jsonl: what its fields are", size, 0, [&] { (void)io::read_jsonl_schema(path); });
  speed(report, "jsonl: rows", size, 300,
        [&] { read_jsonl_rows(path, {}, schema, [](const auto&) {}); });
  speed(report, "jsonl: a data set, from nothing (both passes)", size, 0,
        [&] { (void)data::jsonl(path); });
}

void npy(zoo::Report& report, const Folder& folder, std::uint64_t bytes) {
  const std::string path = folder.path("a.npy");
  const std::int64_t rows = static_cast<std::int64_t>(bytes) / 1024;
  save_npy(path, Tensor::zeros({rows, 256}));
  const double size = megabytes_of(path);
  speed(report, "npy: loaded", size, 1000, [&] { (void)load_npy(path); });
  const Dataset data = Dataset::of({{"x", load_npy(path)}}).shuffle(1).batch(256).prefetch(2);
  speed(report, "npy: shuffled batches, from memory", size, 0, [&] {
    for (const Batch& b : data.epochs(1)) (void)b.rows();
  });
}

void png(zoo::Report& report, const Folder& folder, int count) {
  constexpr int kSide = 64;
  write_pictures(folder.path("p"), count, kSide);
  const double size = count * kSide * kSide * 3 / 1e6;
  speed(report, "png: pixels of pictures of 64 by 64", size, 0,
        [&] { (void)data::images(folder.path("p")); });
}

void resume(zoo::Report& report, const Folder& folder, std::int64_t rows) {
  const std::string path = folder.path("long.jsonl");
  write_short_jsonl(path, rows + 1000);
  const data::JsonlOptions options{.store = {false, folder.path("cache")}};
  const double first = seconds_of([&] { (void)data::jsonl(path, options); });
  report.say(
      "        %-58s %.1f s\n",
      zoo::formatted("jsonl: %lld rows read for the first time", static_cast<long long>(rows))
          .c_str(),
      first);
  for (const bool shuffled : {false, true}) {
    std::int32_t found = -1;
    const double later = seconds_of([&] {
      const Dataset data = data::jsonl(path, options).rows.batch(100);
      auto walk = (shuffled ? data.shuffle(1) : data).walk(1, {.batch = rows / 100});
      found = walk.next()->values()[0].data<std::int32_t>()[0];
    });
    const std::string what = zoo::formatted("jsonl: on at row %lld%s", static_cast<long long>(rows),
                                            shuffled ? ", shuffled" : "");
    report.metric(what, "time", later, "s");
    report.check(what + ", within 2 s", later <= 2 && (shuffled || found == rows % 1000),
                 zoo::formatted("%.4f s", later));
  }
}

}  // namespace

int main(int argc, char** argv) {
  zoo::Report report("input", argc, argv);
  const Folder folder;
  const std::uint64_t bytes = report.quick() ? 64 << 20 : 256 << 20;
  if (report.wanted("npy")) npy(report, folder, bytes);
  if (report.wanted("csv")) csv(report, folder, bytes);
  if (report.wanted("jsonl")) jsonl(report, folder, bytes);
  if (report.wanted("png")) png(report, folder, report.quick() ? 500 : 2000);
  if (report.wanted("resume")) resume(report, folder, report.quick() ? 5'000'000 : 100'000'000);
  return report.exit_code();
}
