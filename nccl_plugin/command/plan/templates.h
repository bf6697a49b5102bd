// Files that the commands take, with an example of each field, for those who write their own.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_TEMPLATES_H_
#define NCCL_PLUGIN_COMMAND_PLAN_TEMPLATES_H_

namespace ringpress::nccl_plugin::command {

/// `ringpress plan` takes it (job_file.h).
extern const char* const kJobTemplate;
/// `ringpress schedule` takes both together (cluster_file.h, jobs_file.h).
extern const char* const kClusterTemplate;
extern const char* const kJobsTemplate;

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_TEMPLATES_H_
