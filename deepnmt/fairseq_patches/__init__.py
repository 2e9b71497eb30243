"""All that is changed in fairseq, one file a subject; `python -m deepnmt.fairseq_patches` prints the list.

None of it can be registered with fairseq instead without changing what users write: an optimizer, task or data class
of another name would need another `--optimizer` or `--task`, also in the checkpoints that exist, and fairseq refuses to
register a name twice. Everything else has no registry: the trainer, files, batches, processes.
"""


def install() -> None:
    """Make all changes; a second call does nothing.

    Raises:
        UserError: the installed fairseq is not one that they are made for
    """
    from deepnmt.fairseq_patches import (  # noqa: F401  importing them declares what they change
        averaged_validation,
        batches,
        beam_search,
        best_metric,
        bleu_line,
        checkpoint_files,
        data_checks,
        embedding_files,
        evaluation_checks,
        full_precision,
        half_precision,
        help_text,
        ignored_options,
        numpy_names,
        one_folder_one_training,
        optimizers,
        process,
        reference_kernels,
        restore_file,
        resumed_counts,
        saving,
        search_sizes,
        stopping,
        subwords_of_tasks,
        tensorboard,
        trainer,
        training_checks,
        training_parts,
        unknown_words,
        untrusted_text,
        validation_bleu,
        validation_steps,
        workers,
    )
    from deepnmt.fairseq_patches.patch import install_declared

    install_declared()
