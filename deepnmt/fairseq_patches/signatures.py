"""The parameters of each replaced function, in the fairseq that this package is written for."""

import re

# "(module, ...)" leaves the rest open, where it is torch's.
TEXT = """
fairseq.checkpoint_utils._torch_persistent_save(obj, f)
fairseq.checkpoint_utils._upgrade_state_dict(state)
fairseq.checkpoint_utils.load_checkpoint(cfg, trainer, **passthrough_args)
fairseq.checkpoint_utils.load_checkpoint_to_cpu(path, arg_overrides=None, load_on_all_ranks=False)
fairseq.checkpoint_utils.load_model_ensemble(filenames, arg_overrides=None, task=None, strict=True, suffix='',
    num_shards=1, state=None)
fairseq.checkpoint_utils.load_model_ensemble_and_task(filenames, arg_overrides=None, task=None, strict=True, suffix='',
    num_shards=1, state=None)
fairseq.checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, val_loss)
fairseq.data.data_utils.batch_by_size(indices, num_tokens_fn, num_tokens_vec=None, max_tokens=None, max_sentences=None,
    required_batch_size_multiple=1, fixed_shapes=None)
fairseq.data.data_utils.raise_if_valid_subsets_unintentionally_ignored(train_cfg)
fairseq.data.iterators.EpochBatchIterator._get_iterator_for_epoch(self, epoch, shuffle, fix_batches_to_gpus=False,
    offset=0)
fairseq.data.iterators.EpochBatchIterator.load_state_dict(self, state_dict)
fairseq.data.iterators.EpochBatchIterator.state_dict(self)
fairseq.data.iterators.GroupedIterator.__init__(self, iterable, chunk_size, skip_remainder_batch=False)
fairseq.distributed.utils._broadcast_object_slow(obj, src_rank, group, dist_device)
fairseq.distributed.utils.all_gather_list(data, group=None, max_size=16384)
fairseq.distributed.utils.call_main(cfg, main, **kwargs)
fairseq.file_io.PathManager.copy(src_path, dst_path, overwrite=False)
fairseq.logging.progress_bar.TensorboardProgressBarWrapper._writer(self, key)
fairseq.models.build_model(cfg, task, from_checkpoint=False)
fairseq.models.distributed_fairseq_model.DistributedDataParallel(module, device_ids=None, output_device=None, ...)
fairseq.models.ema.ema.EMA._step_internal(self, new_model, updates=None)
fairseq.models.fairseq_model.BaseFairseqModel.load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None)
fairseq.modules.fairseq_dropout.FairseqDropout.make_generation_fast_(self, name, retain_dropout=False,
    retain_dropout_modules=None, **kwargs)
fairseq.ngram_repeat_block.NGramRepeatBlock.forward(self, tokens, lprobs, bsz, beam_size, step)
fairseq.optim.adam.FairseqAdam.__init__(self, cfg, params)
fairseq.optim.amp_optimizer.AMPOptimizer.__init__(self, cfg, params, fp32_optimizer, **kwargs)
fairseq.optim.amp_optimizer.AMPOptimizer.load_state_dict(self, state_dict, optimizer_overrides=None)
fairseq.optim.amp_optimizer.AMPOptimizer.state_dict(self)
fairseq.optim.amp_optimizer.AMPOptimizer.step(self)
fairseq.optim.fp16_optimizer._FP16OptimizerMixin.load_state_dict(self, state_dict, optimizer_overrides=None)
fairseq.optim.fp16_optimizer._FP16OptimizerMixin.state_dict(self)
fairseq.optim.fp16_optimizer._MemoryEfficientFP16OptimizerMixin.load_state_dict(self, state_dict,
    optimizer_overrides=None)
fairseq.optim.fp16_optimizer._MemoryEfficientFP16OptimizerMixin.state_dict(self)
fairseq.optim.lr_scheduler.reduce_lr_on_plateau.ReduceLROnPlateauLRSchedule.load_state_dict(self, state_dict)
fairseq.optim.lr_scheduler.reduce_lr_on_plateau.ReduceLROnPlateauLRSchedule.state_dict(self)
fairseq.options.parse_args_and_arch(parser, input_args=None, parse_known=False, suppress_defaults=False,
    modify_parser=None)
fairseq.scoring.build_scorer(choice, tgt_dict)
fairseq.search.DiverseBeamSearch(tgt_dict, num_groups, diversity_strength, diversity_discount=1.0, candidate_multiple=1)
fairseq.tasks.fairseq_task.FairseqTask.build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None,
    prefix_allowed_tokens_fn=None)
fairseq.tasks.fairseq_task.FairseqTask.filter_indices_by_size(self, indices, dataset, max_positions=None,
    ignore_invalid_inputs=False)
fairseq.tasks.fairseq_task.FairseqTask.get_batch_iterator(self, dataset, max_tokens=None, max_sentences=None,
    max_positions=None, ignore_invalid_inputs=False, required_batch_size_multiple=1, seed=1, num_shards=1, shard_id=0,
    num_workers=0, epoch=1, data_buffer_size=0, disable_iterator_cache=False, skip_remainder_batch=False,
    grouped_shuffling=False, update_epoch_batch_itr=False)
fairseq.tasks.fairseq_task.FairseqTask.load_state_dict(self, state_dict)
fairseq.tasks.language_modeling.LanguageModelingTask.eval_lm_dataloader(self, dataset, max_tokens=36000,
    batch_size=None, max_positions=None, num_shards=1, shard_id=0, num_workers=1, data_buffer_size=10, context_window=0)
fairseq.tasks.setup_task(cfg, **kwargs)
fairseq.tasks.translation.TranslationTask.__init__(self, cfg, src_dict, tgt_dict)
fairseq.tasks.translation.TranslationTask._inference_with_bleu(self, generator, sample, model)
fairseq.tasks.translation.TranslationTask.load_dataset(self, split, epoch=1, combine=False, **kwargs)
fairseq.tasks.translation.TranslationTask.setup_task(cfg, **kwargs)
fairseq.tasks.translation_lev.TranslationLevenshteinTask.build_generator(self, models, args, **unused)
fairseq.trainer.NanDetector(model, forward=True, backward=True)
fairseq.trainer.Trainer.__init__(self, cfg, task, model, criterion, quantizer=None)
fairseq.trainer.Trainer.begin_valid_epoch(self, epoch)
fairseq.trainer.Trainer.get_train_iterator(self, epoch, combine=True, load_dataset=True, data_selector=None,
    shard_batch_itr=True, disable_iterator_cache=False)
fairseq.trainer.Trainer.get_valid_iterator(self, subset, disable_iterator_cache=False)
fairseq.trainer.Trainer.load_checkpoint(self, filename, reset_optimizer=False, reset_lr_scheduler=False,
    optimizer_overrides=None, reset_meters=False)
fairseq.trainer.Trainer.save_checkpoint(self, filename, extra_state)
fairseq.trainer.Trainer.set_num_updates(self, num_updates)
fairseq.trainer.Trainer.train_step(self, samples, raise_oom=False)
fairseq.utils.import_user_module(args)
fairseq.utils.load_align_dict(replace_unk)
fairseq.utils.load_embedding(embed_dict, vocab, embedding)
fairseq.utils.parse_embedding(embed_path)
fairseq.utils.replace_unk(hypo_str, src_str, alignment, align_dict, unk)
fairseq_cli.train.get_valid_stats(cfg, trainer, stats, tracking_best)
fairseq_cli.train.should_stop_early(cfg, valid_loss)
fairseq_cli.train.validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
"""
# The full names of the functions, and their text within the parentheses.
SIGNATURES = {
    name: "(" + " ".join(rest.split())
    for name, _, rest in (row.partition("(") for row in re.split(r"\n(?=\S)", TEXT.strip()))
}
