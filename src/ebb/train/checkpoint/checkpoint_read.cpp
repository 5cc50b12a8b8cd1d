#include <fmt/format.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/io/array/variable_file.hpp"
#include "ebb/optim/saved_parts.hpp"
#include "ebb/tensor/rewrite.hpp"
#include "ebb/train/checkpoint/checkpoint.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/tensor_sums.hpp"

namespace ebb::train {
namespace {

using optim::kNobody;

constexpr char kAdvice[] = "take another checkpoint, or a good copy of this one";

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  optim::refuse(path, fmt::format("{}; {}", why, kAdvice));
}

// A file of a checkpoint, which has what the manifest says of its front.
struct OpenFile {
  const ManifestFile& said;
  File file;
  std::string text;  // its front
  Safetensors front;

  OpenFile(const std::string& directory, const ManifestFile& entry)
      : said(entry), file(File::open(directory + "/" + entry.name)) {
    front = read_safetensors_front(file, &text);
    const auto equal = [](const StoredTensor& a, const ManifestTensor& b) {
      return a.name == b.name && a.spec == b.spec;
    };
    const auto& found = front.tensors;
    const auto [f, s] =
        std::mismatch(found.begin(), found.end(), said.tensors.begin(), said.tensors.end(), equal);
    if (f == found.end() && s == said.tensors.end()) return;
    damaged(file.path(),
            fmt::format("where its manifest says {}, it has {}",
                        s == said.tensors.end() ? "no tensor" : s->name + " " + to_string(s->spec),
                        f == found.end() ? "no tensor" : f->name + " " + to_string(f->spec)));
  }

  // Reads all of it, to the last byte.
  void pass(std::span<std::byte> chunk, const Chunks& passed) {
    TensorSums sums(text, said.tensors.size());
    read_tensors(
        file, front, chunk, [](std::size_t) { return true; },
        [&](std::size_t i, std::span<const std::byte> bytes) {
          sums.add(i, bytes);
          if (passed) passed(i, bytes);
        });
    sums.end();
    for (std::size_t i = 0; i < said.tensors.size(); ++i)
      if (sums.tensors()[i] != said.tensors[i].checksum)
        damaged(file.path(), fmt::format("the bytes of {} sum up to {}, and its manifest says {}",
                                         said.tensors[i].name, digits(sums.tensors()[i]),
                                         digits(said.tensors[i].checksum)));
    if (sums.file() != said.checksum)
      damaged(file.path(), fmt::format("its bytes sum up to {}, and its manifest says {}",
                                       digits(sums.file()), digits(said.checksum)));
  }
};

// Checks one as it passes; where it holds the random draws, that they are those of the manifest.
void verify_file(OpenFile& open, const Manifest& manifest, std::span<std::byte> chunk) {
  const std::uint64_t said[3] = {manifest.seed, manifest.random_step, manifest.draw};
  bool same = true;
  open.pass(chunk, [&](std::size_t i, std::span<const std::byte> bytes) {
    if (open.said.tensors[i].name == optim::kRandom)
      same = std::ranges::equal(bytes, std::as_bytes(std::span(said)));
  });
  if (!same) damaged(open.file.path(), "its random draws are not those of its manifest");
}

memory::Buffer chunk_of(const Manifest& manifest) {
  std::size_t most = sizeof(std::int64_t[4]);
  for (const ManifestFile& f : manifest.files)
    for (const ManifestTensor& t : f.tensors) most = std::max(most, t.spec.bytes());
  return chunk_for(most, "load");
}

std::vector<OpenFile> opened(const std::string& directory, const Manifest& manifest) {
  std::vector<OpenFile> files;
  for (const ManifestFile& f : manifest.files) files.emplace_back(directory, f);
  return files;
}

void refuse_more(const std::string& directory, std::span<const StoredTensor> found,
                 const std::vector<std::size_t>& takes) {
  const auto extras = std::count(takes.begin(), takes.end(), kNobody);
  if (extras == 0) return;
  const auto first = std::find(takes.begin(), takes.end(), kNobody) - takes.begin();
  optim::refuse(directory,
                fmt::format("it also holds {} and {} more that the parts given do not have; give "
                            "all parts that were saved, or take some with load_only",
                            found[static_cast<std::size_t>(first)].name, extras - 1));
}

CheckpointInfo load_into(const std::string& directory, const CheckpointParts& parts, bool all) {
  optim::refuse_in_trace("load");
  const Manifest manifest = read_manifest(directory);
  std::vector<OpenFile> files = opened(directory, manifest);
  std::vector<NamedVariable> wanted = optim::named(parts.lists);

  const memory::Borrowing between_steps;
  if (all) wanted.push_back(optim::random_draws());
  std::vector<StoredTensor> found;
  for (const OpenFile& f : files)
    found.insert(found.end(), f.front.tensors.begin(), f.front.tensors.end());
  const std::vector<std::size_t> takes = optim::takers(directory, found, wanted);
  if (all) refuse_more(directory, found, takes);

  const memory::Buffer buffer = chunk_of(manifest);
  const std::span<std::byte> chunk(buffer.data(), buffer.size());
  const auto needed = [&](std::size_t from, const OpenFile& f) {
    const auto begin = takes.begin() + static_cast<std::ptrdiff_t>(from);
    return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(f.front.tensors.size()),
                       [](std::size_t t) { return t != kNobody; });
  };
  std::vector<std::size_t> starts;  // where each file's tensors begin in `takes`
  for (std::size_t i = 0, at = 0; i < files.size(); at += files[i++].front.tensors.size())
    starts.push_back(at);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (all || needed(starts[i], files[i])) verify_file(files[i], manifest, chunk);

  std::vector<Variable> variables;
  for (const NamedVariable& n : wanted) variables.push_back(n.variable);
  Rewrite rewrite(std::move(variables));
  std::vector<std::uint64_t> written(wanted.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!needed(starts[i], files[i])) continue;
    // Summed up once more: the file may have changed since.
    files[i].pass(chunk, [&](std::size_t tensor, std::span<const std::byte> bytes) {
      const std::size_t to = takes[starts[i] + tensor];
      if (to == kNobody) return;
      rewrite.write(to, bytes, written[to]);
      written[to] += bytes.size();
    });
  }
  rewrite.commit();
  if (all) random::restore(optim::draws_in(wanted.back().variable));
  return manifest.info;
}

}  // namespace

Manifest read_manifest(const std::string& directory) {
  const std::string path = directory + "/" + kManifestName;
  const auto regular = [&](const std::string& file) {
    if (kind_of(file) != PathKind::file)
      optim::refuse(directory,
                    fmt::format("it has no file {}; name a directory that train::save has written",
                                file.substr(directory.size() + 1)));
  };
  if (kind_of(directory) != PathKind::folder)
    optim::refuse(directory, "there is no such directory; check the name");
  regular(path);
  File file = File::open(path);
  const std::uint64_t size = file.size();
  if (size > Manifest::kMaxBytes)
    damaged(path, fmt::format("it has {} bytes, and no manifest has more than {}", size,
                              Manifest::kMaxBytes));
  const memory::Borrowing between_steps;
  const memory::Buffer text(size, "manifest", Category::workspace);
  file.read({text.data(), text.size()});
  Manifest manifest;
  try {
    manifest = parse_manifest({reinterpret_cast<const char*>(text.data()), text.size()});
  } catch (const Error& e) {
    damaged(path, e.what());
  }
  for (const ManifestFile& f : manifest.files) {
    regular(directory + "/" + f.name);
    const std::uint64_t found = File::open(directory + "/" + f.name).size();
    if (found != f.bytes)
      damaged(directory + "/" + f.name,
              fmt::format("it has {} bytes, and its manifest says {}", found, f.bytes));
  }
  return manifest;
}

CheckpointInfo load_parts(const std::string& directory, const CheckpointParts& parts) {
  return load_into(directory, parts, true);
}

CheckpointInfo load_parts_only(const std::string& directory, const CheckpointParts& parts) {
  return load_into(directory, parts, false);
}

CheckpointInfo verify(const std::string& directory) {
  const Manifest manifest = read_manifest(directory);
  const memory::Borrowing between_steps;
  const memory::Buffer buffer = chunk_of(manifest);
  for (const ManifestFile& f : manifest.files) {
    OpenFile open(directory, f);
    verify_file(open, manifest, {buffer.data(), buffer.size()});
  }
  return manifest.info;
}

}  // namespace ebb::train
