#include "nccl_plugin/command/report/input_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "nccl_plugin/command/plan/text_file.h"
#include "nccl_plugin/command/report/json_values.h"
#include "nccl_plugin/command/report/line_file.h"
#include "nccl_plugin/command/report/rank_lines.h"
#include "nccl_plugin/command/report/tuning_table.h"
#include "nccl_plugin/command/report/whole_files.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostProblems = 5;

void tell(std::string problem, FileNote* note) {
  ++note->bad_lines;
  if (note->problems.size() < kMostProblems) note->problems.push_back(std::move(problem));
}

void tell_line(const LineFile& file, const std::string& problem, FileNote* note) {
  tell("line " + std::to_string(file.number()) + ": " + problem, note);
}

/// Numbers that are none are written as nan and inf, which JSON does not know: they become null.
std::string without_nan(std::string text) {
  for (const char* const word : {": -nan", ": nan", ": -inf", ": inf"}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
      text.replace(at, std::strlen(word), ": null");
    }
  }
  return text;
}

/// No value: it is no JSON.
std::optional<Json> parse_line(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) json = Json::parse(without_nan(text), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

/// The first line that has something, with the file behind it.
bool skip_to_text(LineFile* file, std::string* line) {
  while (file->next(line)) {
    if (!is_blank(*line)) return true;
  }
  return false;
}

bool may_begin_line(const std::string& line) {
  return line.starts_with("{\"pid\":") || line.starts_with("{\"ringpress\":");
}

/// What it is of, or why it is nothing.
void read_line(const LineFile& file, const std::string& line, RankLines* lines, FileNote* note) {
  const std::optional<Json> json = parse_line(line);
  if (!json) {
    const bool is_cut = file.ends_file() || file.is_cut();
    tell_line(file, is_cut ? "cut off" : "damaged: it is no JSON", note);
    return;
  }
  std::string problem = "no line of RINGPRESS_STATS, nor a live line";
  if (is_live_line(*json)) {
    problem = lines->add_live(*json);
    note->live_lines += problem.empty() ? 1 : 0;
  } else if (is_statistics_line(*json)) {
    problem = lines->add_statistics(*json);
    note->statistics_lines += problem.empty() ? 1 : 0;
  }
  if (!problem.empty()) tell_line(file, problem, note);
}

void read_lines(LineFile* file, std::string line, RankLines* lines, FileNote* note) {
  note->kind = FileKind::kLines;
  do {
    if (!is_blank(line)) read_line(*file, line, lines, note);
  } while (file->next(&line));
}

void read_tuning_log(LineFile* file, const std::string& header, JobData* data, FileNote* note) {
  note->kind = FileKind::kTuningLog;
  TuningTable table(header);
  std::string line;
  while (file->next(&line)) {
    if (is_blank(line) || line == header) continue;
    std::string problem = table.add(line, note->path, data);
    if (problem.empty()) {
      ++note->rows;
    } else {
      tell_line(*file, file->ends_file() ? "cut off: " + problem : problem, note);
    }
  }
}

void read_whole(const std::string& path, JobData* data, FileNote* note) {
  const Result<std::string> text = read_text_file(path);
  if (!text.is_ok()) return tell(text.status().message(), note);
  std::string problem = add_whole_file(text.value(), data, note);
  if (!problem.empty()) tell(std::move(problem), note);
}

void read_file(const std::string& path, JobData* data, RankLines* lines) {
  FileNote note;
  note.path = path;
  LineFile file(path);
  std::string line;
  if (!file.is_open()) {
    tell(std::strerror(errno), &note);
  } else if (!skip_to_text(&file, &line)) {
    tell("it is empty", &note);
  } else if (is_tuning_header(line)) {
    read_tuning_log(&file, line, data, &note);
  } else if (const std::optional<Json> json = parse_line(line);
             may_begin_line(line) || (json && (is_live_line(*json) || is_statistics_line(*json)))) {
    read_lines(&file, line, lines, &note);
  } else {
    read_whole(path, data, &note);
  }
  data->files.push_back(std::move(note));
}

void note_problem(const std::string& path, const std::string& problem, JobData* data) {
  FileNote note;
  note.path = path;
  tell(problem, &note);
  data->files.push_back(std::move(note));
}

/// Those of a folder, by name.
std::vector<std::string> files_of(const std::string& folder, std::error_code* error) {
  std::vector<std::string> files;
  for (fs::directory_iterator at(folder, *error), end; !*error && at != end; at.increment(*error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Reader {
 public:
  explicit Reader(JobData* data) : data_(data), lines_(data) {}

  void read(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      note_problem(path, error ? error.message() : "there is no such file", data_);
    } else if (fs::is_directory(status)) {
      read_folder(path);
    } else if (!fs::is_regular_file(status)) {
      note_problem(path, "neither a file nor a folder", data_);
    } else if (known_.insert(fs::canonical(path, error).string()).second) {
      read_file(path, data_, &lines_);
    }
  }

  void end() { lines_.join(); }

 private:
  void read_folder(const std::string& path) {
    std::error_code error;
    const std::vector<std::string> files = files_of(path, &error);
    if (error) return note_problem(path, error.message(), data_);
    if (files.empty()) note_problem(path, "a folder without files", data_);
    for (const std::string& file : files) read(file);
  }

  JobData* data_;
  RankLines lines_;
  std::set<std::string> known_;
};

}  // namespace

JobData read_files(const std::vector<std::string>& paths) {
  JobData data;
  Reader reader(&data);
  for (const std::string& path : paths) reader.read(path);
  reader.end();
  return data;
}

}  // namespace ringpress::nccl_plugin::command::report
